//! The filters that count, put into a template where it reads or makes values. They hand on what they are given, so that
//! a template says the same with them as without.

use minijinja::{
    Environment, Error, State, Value,
    machinery::ast::{BinOpKind, CallArg, EmitExpr, Expr, Filter, Spanned, Stmt},
};

use super::budget::{self, ITEM_BYTES};

/// The filters' names, which no template can write.
const READ: &str = "%read";
const MADE: &str = "%made";
const SPREAD: &str = "%spread";
const KEPT: &str = "%kept";

/// Filters that take a text apart into a value for each character or piece.
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
    environment.add_filter(MADE, budget::made);
    environment.add_filter(SPREAD, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        if let Some(text) = value.as_str() {
            budget::make(state, text.len() as u64 * ITEM_BYTES)?;
        }
        budget::read(state, &value)?;
        Ok(value)
    });
    environment.add_filter(KEPT, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        budget::read(state, &Value::from(vec![value.clone()]))?;
        Ok(value)
    });
}

/// Has everything counted that a template reads, makes and prints.
pub fn hold(statement: &mut Stmt<'_>) {
    match statement {
        Stmt::EmitRaw(raw) => {
            let text = Spanned::new(constant(raw.raw), raw.span());
            let emit = EmitExpr { expr: Expr::Const(text) };
            *statement = Stmt::EmitExpr(Spanned::new(emit, raw.span()));
        }
        Stmt::Template(s) => all(&mut s.children),
        Stmt::EmitExpr(s) => within(&mut s.expr),
        Stmt::ForLoop(s) => {
            within(&mut s.iter);
            s.filter_expr.iter_mut().for_each(within);
            all(&mut s.body);
            all(&mut s.else_body);
        }
        Stmt::IfCond(s) => {
            within(&mut s.expr);
            all(&mut s.true_body);
            all(&mut s.false_body);
        }
        Stmt::WithBlock(s) => {
            s.assignments.iter_mut().for_each(|(target, value)| assigned(target, value));
            all(&mut s.body);
        }
        Stmt::Set(s) => {
            let s = &mut **s;
            assigned(&s.target, &mut s.expr);
        }
        Stmt::SetBlock(s) => {
            s.filter.iter_mut().for_each(within);
            all(&mut s.body);
        }
        Stmt::AutoEscape(s) => {
            within(&mut s.enabled);
            all(&mut s.body);
        }
        Stmt::FilterBlock(s) => {
            within(&mut s.filter);
            all(&mut s.body);
        }
        Stmt::Block(s) => all(&mut s.body),
        Stmt::Macro(s) => {
            s.defaults.iter_mut().for_each(within);
            all(&mut s.body);
        }
        Stmt::CallBlock(s) => {
            s.call.args.iter_mut().for_each(argument);
            all(&mut s.macro_decl.body);
        }
        Stmt::Do(s) => s.call.args.iter_mut().for_each(argument),
        Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
        Stmt::Continue(_) | Stmt::Break(_) => {}
    }
}

fn constant(text: &str) -> minijinja::machinery::ast::Const {
    minijinja::machinery::ast::Const { value: Value::from(text) }
}

fn all(statements: &mut [Stmt<'_>]) {
    statements.iter_mut().for_each(hold);
}

fn assigned<'a>(target: &Expr<'a>, value: &mut Expr<'a>) {
    within(value);
    if matches!(target, Expr::GetAttr(_)) {
        wrap(value, KEPT);
    }
}

/// Puts a counting filter around an expression, unless it is a constant, which the source bounds.
fn wrap(expr: &mut Expr<'_>, name: &'static str) {
    if matches!(expr, Expr::Const(_)) {
        return;
    }
    let span = expr.span();
    let nothing = Expr::Const(Spanned::new(constant(""), span));
    let inner = Some(std::mem::replace(expr, nothing));
    *expr = Expr::Filter(Spanned::new(Filter { name, expr: inner, args: Vec::new() }, span));
}

/// Counts within an expression and, where it makes a value, that value.
fn within(expr: &mut Expr<'_>) {
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::UnaryOp(e) => within(&mut e.expr),
        Expr::GetAttr(e) => within(&mut e.expr),
        Expr::BinOp(e) => {
            within(&mut e.left);
            within(&mut e.right);
            if !matches!(e.op, BinOpKind::ScAnd | BinOpKind::ScOr) {
                wrap(&mut e.left, READ);
                wrap(&mut e.right, READ);
                wrap(expr, MADE);
            }
        }
        Expr::Compare(e) => {
            let e = &mut **e;
            for side in std::iter::once(&mut e.expr).chain(e.ops.iter_mut().map(|op| &mut op.expr)) {
                within(side);
                wrap(side, READ);
            }
        }
        Expr::IfExpr(e) => {
            within(&mut e.test_expr);
            within(&mut e.true_expr);
            e.false_expr.iter_mut().for_each(within);
        }
        Expr::Slice(e) => {
            let e = &mut **e;
            within(&mut e.expr);
            [&mut e.start, &mut e.stop, &mut e.step].into_iter().flatten().for_each(within);
            wrap(&mut e.expr, READ);
            wrap(expr, MADE);
        }
        Expr::GetItem(e) => {
            within(&mut e.expr);
            within(&mut e.subscript_expr);
            wrap(&mut e.expr, READ);
        }
        Expr::Filter(_) | Expr::Test(_) | Expr::Call(_) => called(expr),
        Expr::List(e) => literal(expr_items(&mut e.items), expr),
        Expr::Tuple(e) => literal(expr_items(&mut e.items), expr),
        Expr::Map(e) => {
            expr_items(&mut e.keys);
            literal(expr_items(&mut e.values), expr);
        }
    }
}

fn expr_items(items: &mut [Expr<'_>]) {
    items.iter_mut().for_each(within);
}

fn literal((): (), expr: &mut Expr<'_>) {
    wrap(expr, MADE);
}

/// Counts in filters, tests and calls.
fn called(expr: &mut Expr<'_>) {
    match expr {
        Expr::Filter(e) => {
            let e = &mut **e;
            e.args.iter_mut().for_each(argument);
            let Some(operand) = &mut e.expr else { return };
            within(operand);
            wrap(operand, if SPREADING.contains(&e.name) { SPREAD } else { READ });
            wrap(expr, MADE);
        }
        Expr::Test(e) => {
            let e = &mut **e;
            e.args.iter_mut().for_each(argument);
            within(&mut e.expr);
            if !matches!(e.name, "defined" | "undefined") {
                wrap(&mut e.expr, READ);
            }
        }
        Expr::Call(e) => {
            // What is called stays as it is: `self.block()`, `loop(...)` and methods are told apart by it.
            if let Expr::GetAttr(method) = &mut e.expr {
                within(&mut method.expr);
            }
            e.args.iter_mut().for_each(argument);
            wrap(expr, MADE);
        }
        _ => {}
    }
}

fn argument(argument: &mut CallArg<'_>) {
    let (CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr)) =
        argument;
    within(expr);
}
