#!/usr/bin/env python3
"""What RATE's published program sends for scripted answers: lengths and SHA-256, for `crates/judges/tests/all/rate/code.rs` and
`crates/replication/src/rate/tests.rs`.

    git clone https://github.com/BITHLP/RATE
    python3 scripts/golden_rate.py RATE/agentic

Made with commit 8efee2e3 under Python 3.11. The program's requests are answered here, so nothing is reached; its tool
turns are joined to the user's turns beside them, as `crates/replication/src/rate.rs` says.
"""

import contextlib
import hashlib
import io
import sys
import types

SOURCE = "夺笋啊"
FIRST = 'It\'s "savage".\nSo mean.'
SECOND = "How mean!"
KNOWN = "夺笋啊 is slang: 'how mean', a pun on \"多损啊\"."


def call(name, **arguments):
    lines = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items()
    )
    return f"Thought: next.\n<tool_call>{name}\n{lines}</tool_call>"


def compare(candidate, score, **anchors):
    own = {"target_text": candidate, "tentative_score": score, "context_notes": KNOWN}
    return call("comparison_agent", **own, **anchors)


def finish(candidate, score):
    own = {"translation_text": candidate, "final_score": score, "final_rationale": "r"}
    return call("finish_evaluation", **own)


ANSWERS = {
    "core": [
        "I think that it is fine.",
        call("search_agent", query="夺笋啊 meaning"),
        call(
            "general_evaluation_agent",
            source_text=SOURCE,
            translation_text=FIRST,
            context_notes=KNOWN,
            specific_instruction="Check the pun.",
        ),
        compare(FIRST, "2"),
        compare(
            FIRST, "3", synthetic_low_anchor="Grab the bamboo!", synthetic_high_anchor="How savage!"
        ),
        compare(FIRST, "3"),
        finish(FIRST, "3.5"),
        call("general_evaluation_agent", source_text=SOURCE, translation_text=SECOND),
        compare(SECOND, "3.5"),
        compare(SECOND, "2"),
        finish(SECOND, "7"),
    ],
    "evaluator": [
        '```json\n{"score": 2.5, "confidence": 0.85, "rationale": "It\'s \\"good\\"\\n夺", "error_spans": '
        '[{"source_segment": "夺笋啊", "target_segment": "savage", "issue": "tone"}], '
        '"suspected_knowledge_gaps": [], "sure": true, "more": null}\n```',
        '{"score": 4, "confidence": 1.0, "rationale": "", "error_spans": [], "suspected_knowledge_gaps": []}',
    ],
    "search": [
        "Let me search.\n<tool_call>search\n<arg_key>search_query</arg_key>\n<arg_value>"
        '[{"q": "夺笋", "recency": null}, {"q": "slang", "recency": 30}]</arg_value>\n</tool_call>',
        '{"answer": "A pun.", "reasoning": "The glossary."}',
    ],
    "comparer": [
        'Here:\n```json\n{"winner": "A", "rationale": "x"}\n```',
        '{"winner": "Tie", "rationale": "y"}',
        "A is better",
        '{"winner": "C", "rationale": "y"}',
        '{"winner": "B", "rationale": "y"}',
        '{"winner": "A", "rationale": "y"}',
    ],
}


def digest(name, text):
    return f"{name} {len(text.encode())} {hashlib.sha256(text.encode()).hexdigest()}"


def shown(messages):
    turns = []
    for message in messages:
        role = "user" if message["role"] == "tool" else message["role"]
        if turns and turns[-1][0] == role == "user":
            turns[-1][1] += "\n\n" + message["content"]
        else:
            turns.append([role, message["content"]])
    return "".join(f"{role}\n{content}\n" for role, content in turns)


def main(folder):
    sent = []
    prompts = {}

    class Response:
        def __init__(self, body):
            self.body = body

        def json(self):
            return self.body

    def post(_url, json=None, **_):
        if "messages" not in json:
            return Response({"snippets": [f"About {json['query']}.", "More."], "count": 2})
        role = prompts[json["messages"][0]["content"]]
        sent.append(digest(role, shown(json["messages"])))
        message = {"content": ANSWERS[role].pop(0), "reasoning_content": ""}
        return Response({"choices": [{"message": message}]})

    sys.modules["requests"] = types.SimpleNamespace(post=post)
    sys.path.insert(0, folder)
    import comparison_agent
    import core_agent
    import general_evaluation_agent
    import search_agent
    import utils

    prompts.update({
        utils.CORE_AGENT_TASK_PROMPT: "core",
        utils.GENERAL_EVALUATION_AGENT_TASK_PROMPT: "evaluator",
        utils.COMPARISON_AGENT_TASK_PROMPT: "comparer",
        utils.SEARCH_AGENT_INIT_PROMPT: "search",
    })
    comparer = comparison_agent.ComparisonAgent()
    agents = search_agent.SearchAgent(), general_evaluation_agent.GeneralEvaluationAgent(), comparer
    rate = core_agent.CoreAgent(*agents, max_round=6)
    table = ""
    with contextlib.redirect_stdout(io.StringIO()):
        for translation in (FIRST, SECOND):
            rate.eval(SOURCE, translation)
        for anchor in (1, 4, 0.0, 2.5, 3.0, 4.0):
            for first in ("A", "B", "Tie", "C"):
                for second in ("A", "B", "Tie", "C"):
                    outcome = comparer._resolve_consistency({"winner": first}, {"winner": second})
                    for tentative in (0.0, 1.0, 2.0, 2.5, 3.0, 4.0):
                        table += f"{comparer._generate_structured_response(outcome, tentative, anchor)!r}\n"
    print(*(digest(role, prompt) for prompt, role in prompts.items()), "", *sent, "", sep="\n")
    print(digest("calibration", table))


if __name__ == "__main__":
    main(sys.argv[1])
