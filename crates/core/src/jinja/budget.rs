//! The work budget of one rendering. Work is counted, not timed, so that a template fails alike on every machine.

use minijinja::{Error, ErrorKind, State, Value, value::ValueKind};

use super::{MAX_BYTES, MAX_DEPTH};

/// What a place in a list counts. Unit: bytes.
pub const ITEM_BYTES: u64 = 64;

/// How many bytes may be read at the price of one that is made.
const READ: u64 = 16;

/// What looking at a value counts beside its text. Unit: bytes.
const LOOK_BYTES: u64 = 16;

type Items<'a> = Box<dyn Iterator<Item = Value> + Send + Sync + 'a>;

/// What is left of a rendering's budget. Unit: bytes.
struct Left(u64);

/// Takes from the budget what is about to be made.
///
/// # Errors
/// A budget that is used up.
pub fn make(state: &mut State<'_, '_>, bytes: u64) -> Result<(), Error> {
    let Left(left) = state.get_or_insert_extension_with(|| Left(MAX_BYTES));
    *left = left.checked_sub(bytes).ok_or_else(spent)?;
    Ok(())
}

fn left(state: &mut State<'_, '_>) -> u64 {
    state.get_or_insert_extension_with(|| Left(MAX_BYTES)).0
}

fn spent() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("it makes more than {MAX_BYTES} bytes"))
}

/// Takes what reading a value costs.
///
/// # Errors
/// As [`make`], and a value that is nested too deeply.
pub fn read(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let weight = weight(value, 0, left(state).saturating_mul(READ))?;
    make(state, weight / READ + 1)
}

/// Takes what printing a value makes.
///
/// # Errors
/// As [`read`].
pub fn print(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let weight = weight(value, 0, left(state))?;
    make(state, weight)
}

/// The bytes of the texts in a value and of its places, at most about `most`.
fn weight(value: &Value, depth: usize, most: u64) -> Result<u64, Error> {
    if depth > MAX_DEPTH {
        let message = format!("a value is nested more than {MAX_DEPTH} deep");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    // Looking costs the same whether the value is then read or printed: lists in lists have no end of places.
    let mut sum = value.as_bytes().map_or(0, |bytes| bytes.len() as u64)
        + if depth > 0 { LOOK_BYTES * READ } else { 1 };
    let mut add = |item: &Value| -> Result<(), Error> {
        sum += weight(item, depth + 1, most.saturating_sub(sum))?;
        if sum > most { Err(spent()) } else { Ok(()) }
    };
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                add(&item)?;
            }
        }
        ValueKind::Map => {
            if depth > 0 && value.as_object().is_some_and(|o| o.type_name().ends_with("Namespace")) {
                // One that holds itself would never be freed.
                let message = "a namespace cannot be kept in another value";
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
            for key in value.try_iter()? {
                add(&key)?;
                add(&value.get_item(&key)?)?;
            }
        }
        _ => {}
    }
    Ok(sum)
}

/// The value that an operator, a filter or a call made, with what it holds counted. What would be made only when it is
/// iterated over is made here: sums of sums of lists are otherwise small and endless.
///
/// # Errors
/// As [`make`] and [`read`].
pub fn made(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => make(state, value.len().unwrap_or(0) as u64 + 1)?,
        ValueKind::Seq => {
            make(state, value.len().unwrap_or(0) as u64 * ITEM_BYTES)?;
            read(state, &value)?;
        }
        ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                make(state, ITEM_BYTES)?;
                items.push(item);
            }
            let list = Value::from(items);
            read(state, &list)?;
            // It stays what it was for the template's tests: no sequence.
            return Ok(Value::make_object_iterable(list, |list| match list.try_iter() {
                Ok(items) => Box::new(items) as Items<'_>,
                Err(_) => Box::new(std::iter::empty()),
            }));
        }
        ValueKind::Map => read(state, &value)?,
        _ => {}
    }
    Ok(value)
}
