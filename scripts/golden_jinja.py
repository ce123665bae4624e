#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["transformers==5.24.0", "jinja2==3.1.6"]
# ///
"""Write tests/golden/jinja.json: small templates as transformers renders them.

    scripts/golden_jinja.py

Each is rendered by `_compile_jinja_template` with the values below; `null` stands for a template that fails. What is
random or depends on the day is left out, and what minijinja prints otherwise on purpose (bytes, functions).
"""

import copy
import itertools
import json
import pathlib

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"

VALUES = {
    "text": "Das größte Haus, they're  here\n",
    "empty": "",
    "spaced": " \t a  b c \x1f",
    "list": [3, 1, 2],
    "none_list": [],
    "words": ["b", "A", "c", "a"],
    "map": {"b": 1, "a": "x", "c": None},
    "nested": {"z": [1, {"k": "é\x7f"}], "a": {"y": True, "x": 0.5}},
    "flag": True,
    "nothing": None,
    "number": 42,
    "float": 2.5,
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    "tools": None,
    "documents": None,
}

TEXTS = ["text", "empty", "spaced", "'a,b,,c'", "'ABC abc'", "'x'", "'line\\nnext\\r\\nlast end'", "'12'", "'-7'", "'é ß'"]

OTHER_VALUES = ["list", "map", "number", "float", "nothing", "missing"]

METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()",
    "strip('xD')", "lstrip('-')", "rstrip('\\n')", "split()", "split(',')", "split(',', 1)", "split(None, 1)", "split(' ')",
    "split(sep=',', maxsplit=1)", "rsplit()", "rsplit(',')", "rsplit(',', 1)", "rsplit(None, 1)", "rsplit(maxsplit=1)", "splitlines()",
    "splitlines(True)", "splitlines(keepends=True)", "partition(',')", "rpartition(',')", "find('a')", "rfind('a')", "find('zz')",
    "find('a', 2)", "find('a', -3)", "index('a')", "rindex('a')", "index('zz')", "count('a')", "count('a', 1, 4)", "startswith('D')",
    "endswith(('e', '\\n'))", "startswith('b', 2)", "removeprefix('Das')", "removesuffix('\\n')", "replace('a', 'oo')",
    "replace('a', 'oo', 1)", "zfill(6)", "center(9)", "center(10, '*')", "ljust(9, '.')", "rjust(9)", "expandtabs()", "expandtabs(4)",
    "isspace()", "isdigit()", "isnumeric()", "isdecimal()", "isalpha()", "isalnum()", "islower()", "isupper()", "istitle()",
    "isascii()", "isprintable()", "isidentifier()", "join(['1', '2'])", "split('')", "nope()",
]

FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "trim('x')", "length", "wordcount", "urlencode", "center(20)",
    "first", "last", "list", "list | length", "replace('a', 'b')", "default('d')", "default('d', true)", "string", "int", "int(7)",
    "float", "escape", "e", "indent(2)", "indent(2, true)", "indent(width=3, first=True)", "tojson", "tojson(ensure_ascii=True)",
    "truncate(12)", "safe", "join('-')", "sort", "unique | list", "batch(2) | list",
]

OTHERS = [
    "{{ tools is none }}{{ documents is none }}{{ tools is defined }}{{ missing is defined }}{{ missing is none }}",
    "{{ tools is not none and tools | length > 0 }}|{% if tools %}x{% endif %}|{{ missing or 'd' }}",
    "{{ missing }}|{{ missing is undefined }}|{{ missing | default('x') }}|{{ missing == none }}|{{ missing in list }}",
    "{{ missing.attribute }}", "{{ 'a' + missing }}", "{{ missing + 'a' }}", "{{ 'a' ~ missing }}", "{{ missing() }}", "{{ missing | tojson }}",
    "{{ text[::-1] }}|{{ ''[::-1] }}|{{ [][::-1] }}|{{ list[::-1] }}|{{ messages[::-1][0].role }}",
    "{{ list[1:] }}{{ list[:-1] }}{{ list[-1] }}{{ list[:99] }}{{ list[5:] }}{{ list[::2] }}{{ list[2:0:-1] }}{{ list[-9::-1] }}{{ list[9::-1] }}{{ list[:-9:-1] }}",
    "{{ text[1:4] }}{{ text[-3:] }}{{ text[0] }}{{ empty[1:] }}{{ none_list[-2:] }}{{ (1, 2)[::-1] }}{{ ()[::-1] }}",
    "{{ list[99] }}|{{ map.missing }}|{{ map['missing'] }}|{{ map.b }}|{{ messages[0]['content'] }}", "{{ list[::0] }}",
    "{% for i in list %}{{ loop.cycle('a', 'b') }}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for i in list %}{{ loop.cycle() }}{% endfor %}",
    "{% for i in list %}{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.changed(i) }}|{{ loop.depth }};{% endfor %}",
    "{% for i in list %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ m.content }}{% else %}none{% endfor %}|{% for x in none_list %}{% else %}none{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}{{ map.keys() | list }}{{ map.values() | list }}{{ map.get('zz') }}{{ map.get('zz', 1) }}",
    "{% for k in map %}{{ k }}{% endfor %}|{{ map | length }}|{{ 'a' in map }}|{{ map | dictsort }}|{{ map.items() | list }}",
    "{{ map | tojson }}|{{ map | tojson(sort_keys=True) }}|{{ map | tojson(separators=(',', ':')) }}|{{ map | tojson(indent=2) }}",
    "{{ nested | tojson }}|{{ nested | tojson(indent=1, sort_keys=True, separators=(',', ':'), ensure_ascii=True) }}|{{ nested | tojson(indent=0) }}|{{ nested | tojson(indent='  ') }}",
    "{{ [1.0, 1e16, 1e-5, 0.1, 123456789.125, 1e22, -0.0, 2.5e-7] | tojson }}|{{ none_list | tojson(indent=2) }}|{{ {} | tojson(indent=2) }}|{{ [true, none] | tojson }}|{{ (1, 'a') | tojson }}",
    "{{ {1: 'a', none: 2} | tojson }}|{{ 'a\"b\\\\c</x>&' | tojson }}|{{ '\\u2028é😀' | tojson(ensure_ascii=true) }}",
    "{{ [1, 'a', 2.5, true, none, ['b', \"it's\"], {'k': 'v'}, (1,), (1, 2)] }}|{{ {} }}|{{ () }}|{{ 'é\\n' }}|{{ ['é\\n\\t\\\\'] }}",
    "{{ true }}{{ none }}{{ 1.0 }}{{ 2 ** 3 }}{{ 2 ** -1 }}{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 4 / 2 }}{{ 1e3 }}{{ 10 ** 20 }}",
    "{{ 'a' * 3 }}{{ list * 2 }}{{ [1] + [2] }}{{ 'a' ~ 1 ~ none ~ true }}{{ 'a' + 'b' }}{{ 1 < 2 < 3 }}{{ 'a' < 'b' }}{{ not none }}{{ 1 == 1.0 }}{{ true == 1 }}",
    "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ [1] + 'a' }}", "{{ none + 1 }}", "{{ 1 / 0 }}", "{{ none.x }}", "{{ list.append(1) }}", "{{ map.update({}) }}", "{{ map.pop('a') }}",
    "{{ list.index(2) }}{{ list.count(1) }}{{ list.copy() }}{{ map.copy() }}{{ (1, 2).index(2) }}", "{{ list.index(9) }}",
    "{{ 'x' if flag else 'y' }}{{ 'x' if not flag }}|{{ nothing or 'n' }}{{ '' or 'e' }}{{ 0 or 5 }}{{ 'a' and 'b' }}{{ none and 1 }}",
    "{{ list | sum }}{{ list | min }}{{ list | max }}{{ list | sort }}{{ list | sort(reverse=true) }}{{ words | sort }}{{ words | sort(case_sensitive=true) }}{{ words | unique | list }}",
    "{{ messages | map(attribute='role') | list }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='content') | join }}",
    "{{ list | select('odd') | list }}{{ list | reject('gt', 1) | list }}{{ list | map('string') | join('+') }}{{ messages | groupby('role') | length }}{{ messages | sort(attribute='content') | map(attribute='content') | join }}",
    "{{ list | batch(2, 'x') | list }}{{ list | slice(2) | list }}{{ list | first }}{{ none_list | first }}{{ list | last }}{{ list | reverse | list }}{{ 'ab' | reverse }}",
    "{{ 3.7 | int }}{{ '3.7' | float }}{{ 'x' | int }}{{ '0x1A' | int(0, 16) }}{{ 3.14159 | round(2) }}{{ 2.5 | round }}{{ 3.5 | round }}{{ -3 | abs }}{{ 2.1 | round(method='ceil') }}{{ 2.9 | round(0, 'floor') }}",
    "{{ '%s-%05.2f-%d' | format('a', 3.14159, 7) }}|{{ '{}-{:>4}-{x}'.format(1, 2, x=3) }}",
    "{{ map | urlencode }}|{{ [('a b', '1/2'), ('c', 'é')] | urlencode }}|{{ 'a b/c?d=é&~' | urlencode }}|{{ 'don\\'t stop_now 3' | wordcount }}",
    "{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz' | truncate(9, true) }}|{{ 1000 | filesizeformat }}|{{ '<b>x</b> y' | striptags }}|{{ '<&>' | e }}|{{ 'abc' | center(9) }}|",
    "{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.last = m.role %}{% endfor %}{{ ns.n }}{{ ns.last }}",
    "{% set x = 1 %}{% for i in list %}{% set x = i %}{% endfor %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c %}<{{ a }}>{% endset %}{{ c }}",
    "{% macro f(a, b='q') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}|{{ f(1, b=2) }}", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}",
    "{% macro g() %}[{{ caller() }}]{% endmacro %}{% call g() %}in{% endcall %}{% filter upper %}abc{% endfilter %}{% with y = 2 %}{{ y }}{% endwith %}",
    "{{ range(3) | list }}{{ range(1, 10, 4) | list }}{{ range(3, 0, -1) | list }}{{ dict(a=1, b=2) }}{{ dict(a=1).items() | list }}{{ joiner(',')() }}{{ cycler('a', 'b').next() }}",
    "{{ 'a' is string }}{{ 1 is number }}{{ 1 is integer }}{{ 1.5 is float }}{{ true is boolean }}{{ true is number }}{{ list is iterable }}{{ list is sequence }}{{ 'a' is sequence }}{{ map is mapping }}{{ map is sequence }}{{ 'a' is iterable }}",
    "{{ 4 is even }}{{ 4 is odd }}{{ 4 is divisibleby 2 }}{{ 'a' is in 'abc' }}{{ 1 is in list }}{{ 'a' is lower }}{{ 'A' is upper }}{{ none is sameas none }}{{ 1 is eq 1 }}{{ 1 is gt 0 }}{{ f is callable }}{{ 'upper' is filter }}{{ 'odd' is test }}",
    "a\n  {% if flag %}\n    b\n  {% endif %}\nc\n", "  {%- if flag -%}  x  {%- endif -%}  y", "{{ 'a' }}\n\n{{- 'b' }}\n", "x {# note #} y\n{# line #}\nz", "{% raw %}{{ x }}{% endraw %}", "a{%+ if flag %} b{% endif +%}\nc",
    "{% if flag %}\r\nwindows\r\n{% endif %}\r\nlines\r\n", "mac\rlines\r{{ 'a\rb' }}", "last\n", "last\n\n", "last\r\n",
    "{{ raise_exception('no') }}", "{% generation %}x{% endgeneration %}{%-generation-%} y {%-endgeneration-%}z", "{%  generation  %}\nx\n{%  endgeneration  %}\n",
    "{{ messages[0].content.split('i')[0].strip().upper() | lower ~ '!' }}", "{{ (messages | length) % 2 == 0 }}{{ loop is defined }}{{ messages[-1]['role'] != 'user' }}",
    "{{ messages[0].get('content', '') }}{{ messages[0].tool_calls is defined }}{{ 'tool_calls' in messages[0] }}{{ messages[0].tool_calls }}|{{ messages[0]['x'] is not defined }}",
    "{% for m in messages[1:] %}{{ m.role }}{% endfor %}{% for a in [[1, [2]], [3]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}",
    "{{ [1, 2, 3] | tojson | length }}{{ 'abc' | list }}{{ 'a b'.split(' ') | map('upper') | list }}{{ [[1, 2], [3]] | sum(start=[]) }}{{ messages | sum(attribute='x') if false else 1 }}",
    "{{ 'A' 'b' }}{{ \"x\\ty\" }}{{ text.__class__ }}", "{{ 1_000 }}{{ 0x1F }}{{ 0b11 }}{{ 1.5e2 }}", "{{ -(1) }}{{ not true }}{{ 1 if true else 2 if false else 3 }}",
    "{% if a is not defined and not b %}ok{% elif c %}{% else %}{% endif %}", "{{ list[0] if list else '' }}{{ list is not none }}{{ list not in [list] }}", "{{ 'x' in 'xyz' and 'q' not in 'xyz' }}",
]


def rendered(source):
    try:
        return _compile_jinja_template(source).render(**copy.deepcopy(VALUES))
    except Exception:
        return None


def main():
    methods = ["{{ %s.%s }}" % pair for pair in itertools.product(TEXTS, METHODS)]
    filters = ["{{ %s | %s }}" % pair for pair in itertools.product(TEXTS + OTHER_VALUES, FILTERS)]
    # Where Jinja2 fails on a value of another type, a filter here may print something.
    sources = methods + [source for source in filters if rendered(source) is not None] + OTHERS
    # It takes the length of the map, and cuts its text.
    sources.remove("{{ map | truncate(12) }}")
    golden = {
        "made_by": {
            "script": "scripts/golden_jinja.py",
            "transformers": transformers.__version__,
            "jinja2": jinja2.__version__,
        },
        "values": VALUES,
        "rendered": [[source, rendered(source)] for source in sources],
    }
    (GOLDEN / "jinja.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
