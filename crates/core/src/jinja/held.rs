//! Inserts counting into a template's instructions where it reads, creates and prints values. Values pass through
//! unchanged, so that the output is the same as without.

use minijinja::{
    Environment, Error, ErrorKind, State, Value,
    machinery::{Instruction, Instructions},
    value::{Rest, Tuple, ValueKind, ValueOrKwargs},
};

use super::budget::{self, ITEM_BYTES};

/// The filters' names, none of which a template can write.
const READ: &str = "%read";
const TEXT: &str = "%text";
const MADE: &str = "%made";
const KEPT: &str = "%kept";
const SLICE: &str = "%slice";
const FILTER: &str = "%filter";
const TEST: &str = "%test";

/// Filters that make a value of each character or piece of a text, or of each item of a list.
const SPREADING: [&str; 16] = [
    "batch",
    "chain",
    "groupby",
    "lines",
    "list",
    "map",
    "reject",
    "rejectattr",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "sum",
    "unique",
    "zip",
];

pub fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter(READ, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        budget::read(state, &value)?;
        Ok(value)
    });
    environment.add_filter(TEXT, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        if value.kind() == ValueKind::String {
            budget::read(state, &value)?;
        }
        Ok(value)
    });
    environment.add_filter(MADE, budget::made);
    environment.add_filter(KEPT, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        budget::read(state, &Value::from(vec![value.clone()]))?;
        Ok(value)
    });
    environment.add_filter(SLICE, |state: &mut State<'_, '_>, parts: Vec<Value>| -> Result<Value, Error> {
        budget::read(state, &parts[0])?;
        Ok(sliceable(parts)?.into_iter().rev().collect())
    });
    environment.add_filter(FILTER, filtered);
    environment.add_filter(TEST, tested);
}

/// A value with the beginning, end and step of a slice of it. One that goes backwards is made here, as Python makes it,
/// and handed on as a slice of everything.
fn sliceable(parts: Vec<Value>) -> Result<Vec<Value>, Error> {
    let [value, start, stop, step] = &parts[..] else { return Ok(parts) };
    let Some(step) = step.as_i64().filter(|&step| step < 0) else { return Ok(parts) };
    let whole = |made: Value| Ok(vec![made, ().into(), ().into(), ().into()]);
    let ends =
        |value: &Value| if value.is_none() { Ok(None) } else { i64::try_from(value.clone()).map(Some) };
    let (start, stop) = (ends(start)?, ends(stop)?);
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        return whole(
            backwards(chars.len(), start, stop, step).map(|at| chars[at]).collect::<String>().into(),
        );
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(parts);
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let items = backwards(items.len(), start, stop, step).map(|at| items[at].clone());
    whole(if value.is_tuple() {
        Value::from(Tuple::from(items.collect::<Vec<_>>()))
    } else {
        items.collect()
    })
}

/// The places of a slice that goes backwards.
///
/// Source: Python, `slice.indices`.
fn backwards(n: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let n = n as i64;
    let place = |at: i64| if at < 0 { (at.saturating_add(n)).max(-1) } else { at.min(n - 1) };
    let (start, stop) = (start.map_or(n - 1, place), stop.map_or(-1, place));
    let by = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    (stop + 1..=start).rev().step_by(by).map(|at| at as usize)
}

/// Applies a filter to its operand and arguments.
fn filtered(state: &mut State<'_, '_>, args: Vec<ValueOrKwargs>, name: &str) -> Result<Value, Error> {
    let args = Rest(args).into_values();
    for arg in &args {
        budget::read(state, arg)?;
    }
    if let Some(value) = args.first().filter(|_| SPREADING.contains(&name)) {
        budget::print(state, value)?;
        budget::make(state, value.as_str().map_or(0, |text| text.len() as u64 * ITEM_BYTES))?;
    }
    let unknown = |e: Error| match e.kind() {
        ErrorKind::UnknownFilter => Error::new(e.kind(), format!("filter {name} is unknown")),
        _ => e,
    };
    let value = state.apply_filter(name, &args).map_err(unknown)?;
    budget::made(state, value)
}

/// Performs a test on its operand and arguments.
fn tested(state: &mut State<'_, '_>, args: Vec<ValueOrKwargs>, name: &str) -> Result<bool, Error> {
    let args = Rest(args).into_values();
    for arg in &args {
        budget::read(state, arg)?;
    }
    state.perform_test(name, &args).map_err(|e| match e.kind() {
        ErrorKind::UnknownTest => Error::new(e.kind(), format!("test {name} is unknown")),
        _ => e,
    })
}

/// The same instructions, with everything counted that they read, make and print.
pub fn held<'a>(instructions: &Instructions<'a>) -> Instructions<'a> {
    let mut held = Instructions::new(instructions.name(), instructions.source());
    let all: Vec<Vec<Instruction<'a>>> = (0..).map_while(|i| instructions.get(i)).map(counted).collect();
    let starts: Vec<u32> = std::iter::once(0)
        .chain(all.iter().scan(0, |sum, group| {
            *sum += group.len() as u32;
            Some(*sum)
        }))
        .collect();
    for (i, group) in (0_u32..).zip(all) {
        let line = instructions.get_line(i).unwrap_or(0);
        for instruction in group {
            held.add_with_line(moved(instruction, &starts), u16::try_from(line).unwrap_or(u16::MAX));
        }
    }
    held
}

/// An instruction with what counts before and after it.
fn counted<'a>(instruction: &Instruction<'a>) -> Vec<Instruction<'a>> {
    use Instruction as I;
    let apply = |name, n| I::ApplyFilter(name, Some(n), !0);
    let this = instruction.clone();
    // For the last value but one, and for the last.
    let below = |name| [I::Swap, apply(name, 1), I::Swap];
    let both = || [vec![apply(READ, 1)], below(READ).into()].concat();
    match instruction {
        I::EmitRaw(text) => vec![I::LoadConst(Value::from(*text)), I::Emit],
        I::Add | I::Mul | I::StringConcat | I::Pow => [both(), vec![this, apply(MADE, 1)]].concat(),
        I::Sub
        | I::Div
        | I::IntDiv
        | I::Rem
        | I::Eq
        | I::Ne
        | I::Gt
        | I::Gte
        | I::Lt
        | I::Lte
        | I::In
        | I::CompareAndPreserve(_) => [both(), vec![this]].concat(),
        I::GetItem => [below(TEXT).into(), vec![this]].concat(),
        I::SetAttr(_) => [below(KEPT).into(), vec![this]].concat(),
        I::Slice => vec![I::BuildList(Some(4)), apply(SLICE, 1), I::UnpackList(4), this, apply(MADE, 1)],
        I::ApplyFilter(name, n, _) => called(FILTER, name, *n),
        I::PerformTest(name, n, _) => called(TEST, name, *n),
        I::BuildList(_)
        | I::BuildTuple(_)
        | I::BuildMap(_)
        | I::CallFunction(..)
        | I::CallMethod(..)
        | I::CallObject(_) => {
            vec![this, apply(MADE, 1)]
        }
        _ => vec![this],
    }
}

/// A filter or test as one of ours that is given its name.
fn called<'a>(by: &'static str, name: &'a str, n: Option<u16>) -> Vec<Instruction<'a>> {
    let name = Value::from(name.split_whitespace().collect::<String>());
    vec![
        Instruction::BuildList(n.map(usize::from)),
        Instruction::LoadConst(name),
        Instruction::ApplyFilter(by, Some(2), !0),
    ]
}

/// An instruction that jumps to where its target has come to stand.
fn moved<'a>(instruction: Instruction<'a>, starts: &[u32]) -> Instruction<'a> {
    use Instruction as I;
    let to = |target: u32| starts[target as usize];
    match instruction {
        I::Iterate(target) => I::Iterate(to(target)),
        I::Jump(target) => I::Jump(to(target)),
        I::JumpIfFalse(target) => I::JumpIfFalse(to(target)),
        I::JumpIfFalseOrPop(target) => I::JumpIfFalseOrPop(to(target)),
        I::JumpIfTrueOrPop(target) => I::JumpIfTrueOrPop(to(target)),
        I::BuildMacro(name, target, flags) => I::BuildMacro(name, to(target), flags),
        other => other,
    }
}
