//! No template exceeds its limits, overflows the stack or ends in a panic.

use minijinja::context;
use proptest::prelude::*;

use super::*;

/// In the dialect of chat templates' methods.
fn rendered(source: &str) -> Result<String, String> {
    let mut environment = environment();
    environment.set_unknown_method_callback(method);
    let messages =
        [context! { role => "user", content => "a b\nc" }, context! { role => "x", content => "d" }];
    let values = context! { messages, text => "Das \u{df}", none => (), list => [3, 1, 2], on => true };
    add(&mut environment, "test", source.to_owned())
        .and_then(|()| render(&environment, "test", values, MAX_BYTES))
        .map_err(|e| format!("{e:#}"))
}

/// Checks that a template is rejected for one of these reasons.
fn refused(source: &str) {
    let error = rendered(source).err().unwrap_or_else(|| panic!("{source:.80} was rendered"));
    let reasons = [
        "makes more than",
        "is more than",
        "out of fuel",
        "recursion",
        "too large",
        "a tag of more",
        "`elif`",
    ];
    assert!(reasons.iter().any(|reason| error.contains(reason)), "{source:.80}: {error:.200}");
}

#[test]
fn output_and_results_are_limited() {
    for source in [
        "{% for i in range(10000) %}{{ 'x'*10000 }}{% endfor %}",
        "{{ '%999999999999d' | format(1) }}",
        "{{ '%.999999999999f' | format(1.5) }}",
        "{{ '{:>999999999999}'.format(1) }}",
        "{{ 'a\nb' | indent(10**12) }}",
        "{{ 'a\nb' | indent(width=10**12) }}",
        "{{ [1] | batch(10**15, 'x') | list }}",
        "{{ [1] | slice(10**12) | list }}",
        "{% set s = 'x' * 99999 %}{% for i in range(99999) %}{% set t %}{{ s }}{{ s }}{% endset %}{% endfor %}",
        "{% set s = 'x' * 9999999 %}{{ s | replace('x', s) }}",
        "{% set s = 'x' * 9999999 %}{{ s | replace('', s) }}",
        "{% set s = 'x' * 9999999 %}{{ s.replace('x', s) }}",
        "{% set s = 'x' * 99999 %}{{ range(99999) | join(s) }}",
        "{% set s = 'x' * 99999 %}{{ s.join(range(99999)) }}",
        "{% set s = 'x' * 9999999 %}{{ '%s%s%s%s%s%s%s' | format(s, s, s, s, s, s, s) }}",
        "{% set s = 'x' * 9999999 %}{{ '{0}{0}{0}{0}{0}{0}{0}'.format(s) }}",
        "{% set ns = namespace(s=1) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% macro f(s) %}{{ f(s) }}{% endmacro %}{{ f('x') }}",
        "{% macro f(s) %}{{ s }}{{ s }}{% endmacro %}{% set ns = namespace(s='xx') %}{% for i in range(60) %}\
         {% set ns.s = f(ns.s) %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10**9 }}",
    ] {
        refused(source);
    }
    // A template's own text is limited by the instructions that print it.
    let raw = "x".repeat(99_999);
    refused(&format!("{{% set s %}}{{% for i in range(99999) %}}{raw}{{% endfor %}}{{% endset %}}"));
}

#[test]
fn nothing_overflows_the_stack() {
    let n = 50_000;
    let bracketed = |open: &str, close: &str| format!("{{{{ {}1{} }}}}", open.repeat(n), close.repeat(n));
    let chained = |before: &str, after: &str| format!("{{{{ {}1{} }}}}", before.repeat(n), after.repeat(n));
    for source in [
        bracketed("(", ")"),
        bracketed("[", "]"),
        chained("not ", ""),
        chained("-", ""),
        chained("", " + 1"),
        chained("", " + '}}' + \"{{\""),
        chained("{'a': {}}['a'] + ", ""),
        chained("", "|abs"),
        chained("", ".a"),
        chained("1 if 1 else ", ""),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(n)),
        format!("{}{}", "{% if 1 %}".repeat(n / 2), "{% endif %}".repeat(n / 4)),
        format!("{{% raw %}}{{{{ '{{% endraw %}}{{{{ 1{} }}}}", " + '}}'".repeat(n)),
    ] {
        refused(&source);
    }
    for (source, expected) in [
        (format!("{{{{ 1{} }}}}", " + 1".repeat(1_900)), "1901"),
        (format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(10_000)), ""),
        (format!("{{{{ '{}' | length }}}}", "(".repeat(20_000)), "20000"),
        (
            "{% set ns = namespace(s=[]) %}{% for i in range(4000) %}{% set ns.s = [[[[[[[[[[ns.s]]]]]]]]]] %}\
             {% endfor %}{{ ns.s | string | length }}"
                .to_owned(),
            "80002",
        ),
    ] {
        assert_eq!(rendered(&source).as_deref(), Ok(expected), "{}", &source[..50]);
    }
}

#[test]
fn chats_of_hundreds_of_turns_are_within_the_limits() {
    let source = "{% set ns = namespace(text='') %}{% for m in messages %}{% if m['role'] == 'user' %}\
                  {% set ns.text = ns.text + m['content'] | trim %}{% endif %}{{ '<' + m.role + '>\n' + m['content'] }}\
                  {% endfor %}{{ messages[-1].content }}";
    let mut environment = environment();
    add(&mut environment, "test", source).unwrap();
    let message = |_| context! { role => "user", content => "word ".repeat(100) };
    let messages: Vec<Value> = (0..300).map(message).collect();
    let n_bytes = 300 * 507 + 500;
    let values = context! { messages };
    assert_eq!(render(&environment, "test", values.clone(), n_bytes).unwrap().len(), n_bytes);
    assert!(
        render(&environment, "test", values, n_bytes - 1).unwrap_err().to_string().contains("makes more")
    );
}

#[test]
fn panics_of_the_engine_are_errors() {
    for source in ["{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "{{ ''[::-1] }}"] {
        assert!(rendered(source).unwrap_err().contains("panicked"), "{source}");
    }
}

#[test]
fn a_byte_order_mark_is_dropped_and_lines_end_alike() {
    assert_eq!(rendered("\u{feff}a\r\nb\rc\n{{ 'd\r\ne' }}\n").unwrap(), "a\nb\nc\nd\ne");
    assert_eq!(rendered("a\u{feff}").unwrap(), "a\u{feff}", "elsewhere it is a character");
}

/// Values, numbers in a slice, filters, methods and operators, separated by blanks.
const VALUES: &str = "'' 'abc' '\u{e9}\u{1f600}' [] [3,1,2] () (1,2) {} {'a':1} none true 0 -1 9223372036854775807 \
    -9223372036854775808 2.5 1e308 missing range(3) messages messages[0] text loop dict() namespace() range";
const NUMBERS: &str = " 0 1 -1 2 99 -99 9223372036854775807 -9223372036854775808 none";
const FILTERS: &str = "abs attr('a') batch(0) batch(2) bool capitalize center(9) chain([1]) default(1) dictsort first \
    float format(1) groupby('a') indent(2) int items join join(1) last length lines list lower map('upper') \
    map(attribute='a') max min reject replace('','x') reverse round round(-400) round(400) select selectattr('a') \
    slice(0) slice(2) sort split split('') string sum title tojson trim truncate(3) unique upper urlencode wordcount \
    zip([1])";
const METHODS: &str = "split() split('') rsplit(none,0) split(none,-1) center(-1) zfill(3) expandtabs(0) find('',9) \
    find('b',-99,99) index('') count('') partition('') replace('','') title() splitlines() startswith('',99) format() \
    format(1) join(1) items() get('a') cycle() changed() strip('') removeprefix('') index(1) copy() keys() isidentifier()";
const OPERATORS: &str = "+ - * / // % ** ~ == < in and or is\u{a0}eq is\u{a0}divisibleby";

fn one_of(list: &'static str) -> impl Strategy<Value = String> {
    let items: Vec<String> = list.split(' ').map(|item| item.replace('\u{a0}', " ")).collect();
    prop::sample::select(items)
}

/// A small expression.
fn expression() -> impl Strategy<Value = String> {
    let (value, number, filter) = (|| one_of(VALUES), || one_of(NUMBERS), || one_of(FILTERS));
    prop_oneof![
        (value(), number(), number(), number()).prop_map(|(v, a, b, c)| format!("{v}[{a}:{b}:{c}]")),
        (value(), number())
            .prop_map(|(v, a)| format!("{v}[{a} or 0]", a = if a.is_empty() { "0" } else { &a })),
        (value(), filter(), filter()).prop_map(|(v, f, g)| format!("{v} | {f} | {g}")),
        (value(), one_of(METHODS)).prop_map(|(v, m)| format!("({v}).{m}")),
        (value(), one_of(OPERATORS), value()).prop_map(|(a, o, b)| format!("({a}) {o} ({b})")),
    ]
}

proptest! {
    #[test]
    fn no_small_template_panics(expressions in prop::collection::vec(expression(), 1..3)) {
        let printed: Vec<String> = expressions.iter().map(|e| format!("{{{{ {e} }}}}")).collect();
        let _ = rendered(&printed.concat());
        let _ = rendered(&format!("{{% for x in [1, 2] %}}{}{{% endfor %}}", printed.concat()));
    }
}
