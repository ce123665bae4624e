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
    "content": "<think>\nso\n</think>\n\nYes.",
    "parts": [{"type": "text", "text": "Hi"}, {"type": "image", "image": "a.png"}, {"type": "text", "text": "there"}],
    "tool": {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A \"city\" <name>"},
                    "days": {"type": ["integer", "null"], "enum": [1, 2.5, None], "default": 1},
                },
                "required": ["city"],
            },
        },
    },
    "call": {"id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2, "raw": True}}},
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
    "{{ text[::-1] }}|{{ list[::-1] }}|{{ messages[::-1][0].role }}", "{{ ''[::-1] }}|{{ [][::-1] }}|{{ ()[::-1] }}",
    "{{ list[1:] }}{{ list[:-1] }}{{ list[-1] }}{{ list[:99] }}{{ list[5:] }}{{ list[::2] }}{{ list[9::-1] }}{{ list[:-9:-1] }}", "{{ list[2:0:-1] }}", "{{ list[-9::-1] }}",
    "{{ text[1:4] }}{{ text[-3:] }}{{ text[0] }}{{ empty[1:] }}{{ none_list[-2:] }}{{ (1, 2)[::-1] }}",
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

# What the templates of published checkpoints write: Llama, Qwen, Gemma, Mistral, Phi, DeepSeek, GLM, gpt-oss, Command,
# Granite, Nemotron, SmolLM and others.
PUBLISHED = [
    # Strings.
    "{{ content.split('</think>')[-1].lstrip('\\n') }}", "{{ content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    "{{ '</think>' in content }}", "{{ content | trim }}", "{{ content.strip() | length }}", "{{ content.startswith('<think>') and not content.endswith('</think>') }}",
    "{{ content.startswith(('<a>', '<think>')) }}", "{{ content.replace('<think>', '').replace('</think>', '') | trim }}", "{{ content.find('</think>') }}",
    "{{ content[content.find('</think>') + 8:] | trim }}", "{{ (content.split('</think>') | last).strip('\\n') }}", "{{ content.count('think') }}",
    "{{ 'a_b_c'.split('_', 1) }}", "{{ 'a_b_c'.rsplit('_', 1)[0] }}", "{{ 'one two'.title() }}", "{{ 'one Two'.capitalize() }}", "{{ messages[0]['role'].upper() }}",
    "{{ messages[0].role | upper }}{{ 'ABC' | lower }}{{ 'abc' | capitalize }}{{ 'one two' | title }}", "{{ '12'.isdigit() }}{{ 'a'.isalpha() }}{{ ''.isspace() }}",
    "{{ '\\n'.join(['a', 'b']) }}", "{{ ', '.join(tool.function.parameters.required) }}", "{{ 'a\\nb\\n'.splitlines() }}", "{{ 'Tool: {}'.format('x') }}", "{{ '{0}/{1}'.format(1, 2) }}",
    "{{ '{name}'.format(name='x') }}", "{{ '%s: %d' | format('n', 3) }}", "{{ '%s: %d' % ('n', 3) }}", "{{ '%s' % 'a' }}", "{{ 'prefix_x'.removeprefix('prefix_') }}", "{{ 'x.json'.removesuffix('.json') }}",
    "{{ 'a' 'b' ~ 1 ~ 2.0 ~ none ~ true }}", "{{ 'ab' * 2 }}{{ '-' * 10 }}", "{{ 'a\\tb\\\\n' }}", "{{ \"it's\" }}{{ 'say \"x\"' }}", "{{ 'é😀'[0] }}{{ 'é😀' | length }}",
    "{{ 'a\\nb\\n\\nc' | indent(4) }}|{{ 'a\\nb\\n' | indent(2, first=true) }}|{{ 'a\\n\\nb' | indent(width=2, blank=true) }}", "{{ 'x y z' | replace(' ', '_') }}{{ 'aaa' | replace('a', 'b', 2) }}",
    "{{ '<b>&' | e }}{{ '<b>&' | escape }}{{ '<b>' | safe }}", "{{ 'abc' | reverse }}", "{{ ' a ' | trim }}|{{ 'xax' | trim('x') }}", "{{ 'abc' | first }}{{ 'abc' | last }}",
    # Slices.
    "{{ messages[1:] | length }}{{ messages[:-1] | length }}{{ messages[0:1][0].role }}", "{% for m in messages[::-1] %}{{ m.role }};{% endfor %}", "{% for m in messages[1:] | reverse %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "{{ messages[-1].role }}{{ messages[-2]['content'] }}", "{{ messages[loop_start | default(1):][0].role }}", "{{ (messages[1:])[0].content }}", "{{ list[-2:] }}{{ list[:2] }}{{ list[1:2] }}{{ list[::2] }}{{ list[::-1] }}", "{{ text[:3] }}{{ text[-2:] | tojson }}{{ 'abc'[::-1] }}{{ 'abcdef'[1:5:2] }}",
    "{{ messages[1:] is sequence }}{{ messages[1:] is iterable }}{{ messages[1:] is string }}{{ list[1:] == [1, 2] }}", "{{ list[1:] + [4] }}", "{{ list[1:] | tojson }}", "{{ (1, 2, 3)[1:] }}{{ (1, 2, 3)[::-1] }}", "{{ list[5:] }}{{ list[5:] | length }}{{ ''[1:] }}",
    "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages | length }}",
    # Tests and undefined values.
    "{% if tools is iterable and tools | length > 0 %}T{% endif %}{{ messages[0].content }}", "{{ none is iterable }}{{ missing is iterable }}{{ 'a' is iterable }}{{ list is iterable }}{{ map is iterable }}{{ 1 is iterable }}{{ true is iterable }}{{ range(2) is iterable }}",
    "{{ none is sequence }}{{ 'a' is sequence }}{{ list is sequence }}{{ map is sequence }}{{ (1, 2) is sequence }}{{ 1 is sequence }}", "{{ none is mapping }}{{ map is mapping }}{{ list is mapping }}{{ missing is mapping }}", "{{ none is string }}{{ 'a' is string }}{{ 1 is string }}{{ missing is string }}",
    "{{ 1 is number }}{{ 1.5 is number }}{{ '1' is number }}{{ true is number }}{{ true is boolean }}{{ 1 is boolean }}{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}", "{{ missing is defined }}{{ missing is undefined }}{{ missing is none }}{{ none is none }}{{ none is defined }}", "{{ tools is defined and tools }}", "{{ tools is not none and tools is defined }}",
    "{{ flag is true }}{{ flag is false }}{{ flag is sameas true }}{{ 1 is sameas true }}{{ not flag }}{{ flag == true }}", "{{ missing is true }}{{ missing == true }}{{ enable_thinking is defined and enable_thinking is false }}", "{{ 'yes' if missing else 'no' }}", "{{ missing or 'default' }}{{ '' or none or 0 or 'x' }}{{ none and 1 }}",
    "{{ missing | default('x') }}{{ none | default('x') }}{{ none | default('x', true) }}{{ '' | default('x', boolean=true) }}{{ missing | d('y') }}", "{{ messages[0].tool_calls is defined }}{{ messages[0].tool_calls }}{{ messages[0]['tool_calls'] is not none }}", "{{ messages[0].tool_calls and messages[0].tool_calls | length }}", "{{ missing.a is defined }}", "{{ missing.a }}", "{{ map.zz.a }}", "{{ map.zz is defined and map.zz.a }}",
    "{{ missing | length }}", "{{ none | length }}", "{% for x in missing %}x{% else %}none{% endfor %}", "{% for x in none %}x{% endfor %}", "{{ missing ~ 'a' }}{{ missing | string }}|{{ none | string }}", "{{ missing + 1 }}", "{{ 'a' + none }}", "{{ 'a' + 1 }}", "{{ missing in ['a'] }}{{ 'a' in missing }}", "{{ 'a' in none }}", "{{ missing == '' }}{{ missing == none }}{{ missing != 'a' }}", "{{ missing | trim }}|{{ missing | upper }}|{{ missing | join(',') }}|{{ missing | list }}|{{ missing | first }}|{{ missing | last }}", "{{ missing | int }}",
    # Loops.
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}", "{% for m in messages %}{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}>{% if not loop.last %}{{ loop.nextitem.role }}{% endif %};{% endfor %}", "{% for m in messages if m.role != 'system' %}{{ m.role }}{{ loop.index }}{% endfor %}",
    "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}", "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.role }}{% endfor %}", "{% for k, v in tool.function.parameters.properties.items() %}{{ k }}:{{ v.type }};{% endfor %}", "{% for k, v in tool.function.parameters.properties | items %}{{ loop.index }}{{ k }}{% endfor %}",
    "{% for k, v in map | dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for k in tool.function.parameters.properties %}{{ k }}{{ ', ' if not loop.last }}{% endfor %}", "{% for c in 'abc' %}{{ c }}-{% endfor %}", "{% for i in range(messages | length - 1, -1, -1) %}{{ messages[i].role }}{% endfor %}", "{% for i in range(0, 5, 2) %}{{ i }}{% endfor %}", "{% for x in [] %}{% else %}empty{% endfor %}", "{% for m in messages %}{% for n in messages %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    # Assignments, namespaces, macros.
    "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.found }}{{ ns.n }}", "{% set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}{% for message in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.multi_step_tool and message.role == 'user' %}{% set ns.multi_step_tool = false %}{% set ns.last_query_index = index %}{% endif %}{% endfor %}{{ ns.last_query_index }}", "{% set ns = namespace() %}{% set ns.a = [] %}{% set ns.a = ns.a + ['x'] %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "{% set a, b = 1, 2 %}{{ a + b }}", "{% set s %}\n  text\n{% endset %}[{{ s }}]", "{% set s | trim %}  text  {% endset %}[{{ s }}]", "{% if missing is not defined %}{% set missing = 'x' %}{% endif %}{{ missing }}",
    "{% macro render(name, value=none, indent='  ') %}{{ indent }}{{ name }}={{ value }}{% endmacro %}{{ render('a') }}|{{ render('b', 1) }}|{{ render(name='c', value=[1], indent='') }}", "{%- macro walk(node, depth=0) -%}{{ depth }}{% for k, v in node.items() %}{{ k }}{% if v is mapping %}({{ walk(v, depth + 1) }}){% endif %}{% endfor %}{%- endmacro -%}{{ walk(tool) }}", "{% macro f(x) %}{{ x | trim }}{% endmacro %}{% set y = f('  a ') %}[{{ y }}]{{ y | length }}", "{% macro f() %}{{ caller('x') }}{% endmacro %}{% call(v) f() %}<{{ v }}>{% endcall %}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, a=2) }}", "{% macro f(a) %}{{ bos_token }}{{ a }}{{ messages | length }}{% endmacro %}{{ f(1) }}",
    "{% macro f(v) %}{% if v is string %}s{% elif v is number %}n{% else %}{{ f('x') }}{% endif %}{% endmacro %}{{ f('a') }}{{ f(1) }}{{ f([]) }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "{% filter trim %}  x  {% endfilter %}", "{% generation %}{{ messages[1].content }}{% endgeneration %}",
    # Filters on lists and dicts.
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "{{ (messages | selectattr('role', '==', 'user') | first).content }}", "{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='content') | list }}", "{{ messages | selectattr('tool_calls', 'defined') | list }}", "{{ messages | selectattr('content') | list | length }}", "{{ messages | rejectattr('role', 'in', ['user']) | list | length }}", "{{ parts | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\\n') }}", "{{ parts | map(attribute='text', default='?') | join(', ') }}",
    "{{ parts | map(attribute='type') | unique | list }}", "{{ parts | groupby('type') | map(attribute='grouper') | list if false else parts | groupby('type') | length }}", "{% for kind, group in parts | groupby('type') %}{{ kind }}:{{ group | length }};{% endfor %}", "{{ parts | sort(attribute='type') | map(attribute='type') | join(' ') }}", "{{ list | select('gt', 1) | list }}{{ list | reject('equalto', 3) | list }}{{ [1, none, ''] | select | list }}", "{{ ['a', 'B'] | map('lower') | list }}{{ ['a '] | map('trim') | join('|') }}{{ list | map('string') | join }}", "{{ [1, 2] | join(', ') }}{{ ['a'] | join }}{{ parts | join(';', attribute='type') }}",
    "{{ list | sort }}{{ list | sort(reverse=true) }}{{ list | max }}{{ list | min }}{{ list | sum }}{{ list | length }}{{ list | count }}", "{{ list | last }}{{ list | first }}{{ [] | first }}{{ [] | last }}", "{{ (messages | last).role }}", "{{ map.keys() | list }}{{ map.values() | list }}{{ map.items() | list }}{{ map | list }}{{ map | length }}", "{{ map.get('b') }}{{ map.get('zz') }}{{ map.get('zz', 'd') }}{{ map['b'] }}{{ map.b }}", "{{ 'b' in map }}{{ 'zz' not in map }}{{ 3 in list }}{{ 'a' in 'abc' }}{{ 'role' in messages[0] }}{{ 'x' in map.values() }}",
    "{{ {'a': 1, 'b': [1, 2]} }}{{ dict(a=1) }}{{ {'a': 1}['a'] }}{{ {'a': {'b': 2}}.a.b }}", "{{ map.items() | map('first') | list }}", "{{ map.update({'q': 1}) }}", "{{ list.append(4) }}", "{% do list.append(4) %}", "{{ map.pop('b') }}", "{{ [[1, 2], [3]] | sum(start=[]) }}", "{{ list | batch(2) | list }}{{ [1, 2] | map('tojson') | list }}",
    # JSON.
    "{{ tool | tojson }}", "{{ tool | tojson(indent=4) }}", "{{ tool | tojson(indent=2) | length }}", "{{ tool | tojson(ensure_ascii=False) }}{{ call | tojson(ensure_ascii=True) }}", "{{ call.function.arguments | tojson(separators=(',', ':')) }}", "{{ call.function | tojson(sort_keys=True) }}", "{{ call.function.arguments | tojson | safe }}", "{{ messages | tojson }}", "{{ 'Köln \"x\" </a>\\n' | tojson }}", "{{ [1, 1.0, 1.5, 1e20, true, none] | tojson }}", "{{ {} | tojson }}{{ [] | tojson }}{{ none | tojson }}{{ 'x' | tojson }}{{ 1 | tojson }}", "{{ (1, 2) | tojson }}{{ {1: 2} | tojson }}", "{{ missing | tojson }}",
    "{%- for name, value in call.function.arguments.items() %}<parameter={{ name }}>\n{{ value if value is string else value | tojson }}\n</parameter>\n{%- endfor %}", "{{ '{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}{{ call.function.arguments | tojson }}{{ '}' }}", "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}",
    # Numbers and printing.
    "{{ 1 }}{{ 1.0 }}{{ 1.5 }}{{ -2 }}{{ 0.1 + 0.2 }}{{ 12345.678 }}{{ 100000000000000000000 }}", "{{ 1e20 }}{{ 1e-7 }}", "{{ true }}{{ false }}{{ none }}{{ True }}{{ False }}{{ None }}", "{{ [true, none, 1.0, 'a', \"it's\", (1,), (), {}, []] }}", "{{ ['a\\n', 'é', '\\\\', '\"'] }}", "{{ messages }}", "{{ map }}{{ (1, 'a') }}", "{{ 7 // 2 }}{{ 7 / 2 }}{{ 8 / 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 2 ** 10 }}{{ 2 ** 0.5 }}", "{{ '3' | int + 1 }}{{ 'x' | int(-1) }}{{ 3.9 | int }}{{ '2.5' | float }}{{ 3 | float }}{{ 2.567 | round(1) }}{{ 2.5 | round | int }}{{ -3 | abs }}", "{{ 1 < 2 <= 2 }}{{ 1 == 1.0 }}{{ 'a' < 'b' }}{{ [1] == [1] }}{{ (1,) == [1] }}{{ not 1 == 2 }}", "{{ (messages | length) % 2 == 1 }}{{ messages | length > 1 and messages[1].role == 'assistant' }}", "{{ 'a' if 1 > 2 else 'b' if 2 > 3 else 'c' }}", "{{ 1 if false }}|{{ (1 if false) is defined }}",
    # White space.
    "a  {%- if flag %}  b  {%- endif %}  c", "a\n{%- for m in messages %}\n  {{- m.role }}\n{%- endfor %}\nb", "  {% if flag %}\nx\n  {% endif %}\ny", "{{- 'a' -}}   {{- 'b' -}}\n", "a {#- note -#} b", "{# a\nb #}\nx", "{% if flag -%}\n  x\n{%- else -%}\n  y\n{%- endif %}\n", "\n\n{{ 'a' }}\n\n", "{%- set x = 1 %}\n\n{%- if x %}y{% endif %}", "{% raw %}{{ x }}{% endraw %}\n{{ '{{' }}{{ '%}' }}", "\t{% if flag %}\tx{% endif %}\t\n", "{{ 'a' }}{% if flag %}\n{% endif %}b", "  {%+ if flag %}x{% endif %}", "{% if flag %}x{% endif +%}\ny",
    # Functions.
    "{{ raise_exception('Only user and assistant roles are supported!') }}", "{{ bos_token + 'x' + eos_token }}", "{{ bos_token is defined }}{{ pad_token is defined }}{{ add_generation_prompt }}", "{{ range(3) | list }}{{ range(2) | length }}{{ range(1, 3) | join('-') }}", "{{ strftime_now is defined }}{{ raise_exception is defined }}", "{{ namespace(a=1).a }}{{ joiner is defined }}{{ cycler is defined }}", "{{ lipsum is defined }}", "{{ content.__class__ }}", "{{ unknown_function() }}", "{{ 'a' | unknown_filter }}", "{{ content | attr('upper') is defined }}", "{% include 'x' %}", "{{ list is callable }}{{ range is callable }}",
]


def rendered(source):
    try:
        values = VALUES | {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
        return _compile_jinja_template(source).render(**copy.deepcopy(values))
    except Exception:
        return None


def main():
    methods = ["{{ %s.%s }}" % pair for pair in itertools.product(TEXTS, METHODS)]
    filters = ["{{ %s | %s }}" % pair for pair in itertools.product(TEXTS + OTHER_VALUES, FILTERS)]
    # Where Jinja2 fails on a value of another type, a filter here may print something.
    sources = methods + [source for source in filters if rendered(source) is not None] + OTHERS + PUBLISHED
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
