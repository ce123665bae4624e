//! Counting does not change a template's output, and no template exceeds its budget.

use minijinja::{Environment, context};
use proptest::prelude::*;

use super::*;

/// In the dialect of chat templates' methods.
fn dialect() -> Environment<'static> {
    let mut environment = environment();
    environment.set_unknown_method_callback(python_method);
    environment
}

fn rendered(source: &str) -> Result<String, String> {
    let environment = dialect();
    let template = Template::parse("test", source.to_owned(), &environment).map_err(|e| format!("{e:#}"))?;
    let messages =
        [context! { role => "user", content => "a b\nc" }, context! { role => "x", content => "d" }];
    let values = context! { messages, text => "Das \u{df}", none => (), list => [3, 1, 2], on => true };
    template.render(&environment, values).map_err(|e| format!("{e:#}"))
}

#[test]
fn counting_changes_nothing() {
    for source in [
        "{{ text ~ 1 ~ none }}|{{ list + [4] }}|{{ list * 2 }}|{{ 'ab' * 3 }}|{{ 7 // 2 ** 2 - 3 % 2 }}",
        "{{ (list + list) is sequence }}|{{ (1, 2) + (3,) }}|{{ {'a': [1, {'b': text}]} }}|{{ none }}|{{ on }}",
        "{{ missing is defined }}|{{ missing }}|{{ missing | default('x') }}|{{ missing == 1 }}",
        "{{ messages[0]['content'][2:] }}|{{ text[-1] }}|{{ list[::-1] }}|{{ messages[-1].role in ['x', 'y'] }}",
        "{{ messages | map(attribute='role') | join(', ') }}|{{ 'x' | indent(2, true) }}|{{ 'a-b' | replace('-', '+') }}",
        "{{ '%05d %s' | format(7, text) }}|{{ '{:>4}'.format(3) }}|{{ 'a b'.split() }}|{{ text.upper() | lower | trim }}",
        "{{ list | sort | list }}|{{ 'ab' | list }}|{{ list | batch(2) | list }}|{{ list | slice(2) | list }}|{{ messages | length }}",
        "{% for m in messages if m.role != 'z' %}{{ loop.index }}{{ m.role }}{% else %}-{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for i in list %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
        "{% macro f(a, b='q') %}<{{ a }}{{ b }}>{{ caller and caller() }}{% endmacro %}{{ f('x') }}{% call f(1) %}in{% endcall %}",
        "{% set s %}one {{ text }}{% endset %}{{ s }}{% filter upper %}abc{% endfilter %}{% with a = 1 + 1 %}{{ a }}{% endwith %}",
        "{% block b %}x{% endblock %}{{ self.b() }}{% raw %}{{ }}{% endraw %}{# nothing #}{{ 'a' if on else 'b' }}{{ 1 < 2 < 3 }}",
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ {'a': 1}.get('c', 'd') }}{{ not on or text }}",
        "{% for a in [[1, [2]], [3]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}",
    ] {
        let mut plain = Environment::new();
        plain.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        plain.set_auto_escape_callback(|_| AutoEscape::None);
        let messages =
            [context! { role => "user", content => "a b\nc" }, context! { role => "x", content => "d" }];
        let values = context! { messages, text => "Das \u{df}", none => (), list => [3, 1, 2], on => true };
        assert_eq!(
            rendered(source),
            plain.render_str(source, values).map_err(|e| format!("{e:#}")),
            "{source}"
        );
    }
}

/// That it is refused for one of these reasons.
fn refused(source: &str) {
    let reasons =
        ["makes more than", "nested more than", "at most", "out of fuel", "recursion", "cannot be kept"];
    let error = rendered(source).err().unwrap_or_else(|| panic!("{source} was rendered"));
    assert!(reasons.iter().any(|reason| error.contains(reason)), "{source}: {error}");
}

#[test]
fn nothing_grows_without_bound() {
    for source in [
        "{{ '%999999999999d' | format(1) }}",
        "{{ '%*d' | format(999999999999, 1) }}",
        "{{ '%.999999999999f' | format(1.5) }}",
        "{{ '{:>999999999999}'.format(1) }}",
        "{{ 'a\nb' | indent(10**12) }}",
        "{{ 'a\nb' | indent(width=10**12) }}",
        "{{ [1] | batch(10**15, 'x') | list }}",
        "{{ [1] | slice(10**12) | list }}",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(10000) %}{% set ns.s = [ns.s] %}{% endfor %}",
        "{% set ns = namespace(s=1) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=1) %}{% for i in range(60) %}{% set ns.s = dict(a=ns.s, b=ns.s) %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = ns.s + ['x' * 99999999] %}{% endfor %}",
        "{% set s = 'x' * 99999 %}{% for i in range(99999) %}{% set t %}{{ s }}{{ s }}{% endset %}{% endfor %}",
        "{% set s = 'x' * 9999999 %}{{ s | replace('x', s) }}",
        "{% set s = 'x' * 9999999 %}{{ s | replace('', s) }}",
        "{% set s = 'x' * 9999999 %}{{ s.replace('x', s) }}",
        "{% set s = 'x' * 99999 %}{{ range(99999) | join(s) }}",
        "{% set s = 'x' * 99999 %}{{ s.join(range(99999)) }}",
        "{{ ('x' * 99999999) | list | length }}",
        "{{ ('x ' * 49999999).split() | length }}",
        "{% set l = [1] | chain([1]) %}{% set ns = namespace(l=l) %}{% for i in range(60) %}\
         {% set ns.l = ns.l | chain(ns.l) %}{% endfor %}{{ ns.l | length }}",
        "{% set s = 'x' * 9999999 %}{% for i in range(99999) %}{% for j in range(99) %}{{ 'y' in s }}{% endfor %}{% endfor %}",
        "{% set s = 'x' * 9999999 %}{% for i in range(99999) %}{{ s[9999990] }}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.me = ns %}",
        "{% set ns = namespace() %}{% set ns.me = [ns] %}",
        "{% macro f(s) %}{{ f(s ~ s) }}{% endmacro %}{{ f('x' * 9999) }}",
        "{% macro f(s) %}{{ s }}{{ s }}{% endmacro %}{% set ns = namespace(s='xx') %}{% for i in range(60) %}\
         {% set ns.s = f(ns.s) %}{% endfor %}",
    ] {
        refused(source);
    }
    let raw = "x".repeat(99_999);
    refused(&format!("{{% set s %}}{{% for i in range(99999) %}}{raw}{{% endfor %}}{{% endset %}}"));
}

#[test]
fn nothing_overflows_the_stack() {
    let n = 100_000;
    let too_deep = |source: String| {
        let error = rendered(&source).unwrap_err();
        assert!(error.contains("in one pair of brackets") || error.contains("recursion"), "{error}");
    };
    too_deep(format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n)));
    too_deep(format!("{{{{ {}1{} }}}}", "[".repeat(n), "]".repeat(n)));
    too_deep(format!("{{{{ {} 1 }}}}", "not ".repeat(n)));
    too_deep(format!("{{{{ {} 1 }}}}", "-".repeat(n)));
    too_deep(format!("{{{{ 1{} }}}}", " + 1".repeat(n)));
    too_deep(format!("{{{{ 1{} }}}}", "|abs".repeat(n)));
    too_deep(format!("{{{{ a{} }}}}", ".a".repeat(n)));
    too_deep(format!("{{{{ {} 1 }}}}", "1 if 1 else ".repeat(n / 2)));
    too_deep(format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(n / 2)));
    too_deep(format!("{}{}", "{% if 1 %}".repeat(n / 2), "{% endif %}".repeat(n / 4)));
    // What is within the limits is parsed, as deep as it is.
    assert_eq!(rendered(&format!("{{{{ 1{} }}}}", " + 1".repeat(1_900))).unwrap(), "1901");
    assert_eq!(rendered(&format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(1_000))).unwrap(), "");
}

#[test]
fn chats_of_hundreds_of_turns_are_within_the_bounds() {
    let environment = dialect();
    let source = "{% set ns = namespace(text='') %}{% for m in messages %}{% if m['role'] == 'user' %}\
                  {% set ns.text = ns.text + m['content'] | trim %}{% endif %}{{ '<' + m.role + '>\n' + m['content'] }}\
                  {% endfor %}{{ messages[-1].content }}";
    let template = Template::parse("test", source, &environment).unwrap();
    let message = |_| context! { role => "user", content => "word ".repeat(100) };
    let messages: Vec<Value> = (0..300).map(message).collect();
    assert_eq!(template.render(&environment, context! { messages }).unwrap().len(), 300 * 507 + 500);
}

#[test]
fn what_the_engine_panics_on_is_an_error() {
    for (source, expected) in [
        ("{{ ''[::-1] }}|{{ 'abc'[::-1] }}", Some("|cba")),
        ("{{ [][::-1] }}|{{ [1, 2, 3][-1:0:-1] }}|{{ (1, 2)[::-2] }}", Some("[]|[3, 2]|(2,)")),
        ("{{ 'abc'[::-9223372036854775808] }}|{{ 'abc'[9:-9:-1] }}", Some("c|cba")),
        ("{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", None),
        ("{{ 'abc'[::0] }}", None),
    ] {
        let made = rendered(source);
        assert_eq!(made.as_ref().ok().map(String::as_str), expected, "{source}: {made:?}");
    }
    assert!(rendered("{% for i in [1] %}{{ loop.cycle() }}{% endfor %}").unwrap_err().contains("panicked"));
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
