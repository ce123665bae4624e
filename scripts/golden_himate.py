# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy"]
# ///
"""Writes tests/golden/himate/messages.json: what HiMATE's published program sends and how it scores the answers.

usage: python3 scripts/golden_himate.py CHECKOUT/code > tests/golden/himate/messages.json

CHECKOUT is https://github.com/nlp2ct-shijie/HiMATE. Its `pipeline.py` and `score_computation.py` run as they are, with
stand-ins for the modules that would reach the network: every question is answered from the same file's "answers". The
prompts are those of tests/golden/himate/prompts, invented texts under the names of the authors' own, which have no
licence. Messages are hashed as ROLE, a line feed, CONTENT and a zero byte, one after the other.
"""

import collections
import contextlib
import hashlib
import io
import json
import os
import runpy
import sys
import tempfile
import types

import numpy

AGENTS = [
    "Addition", "Omission", "Mistranslation", "Untranslated_text", "Inappropriate_for_context", "Inconsistent_use",
    "Punctuation", "Spelling", "Grammar", "Register", "Inconsistency", "Character_encoding", "Awkward", "Address_format",
    "Currency_format", "Date_format", "Name_format", "Telephone_format", "Time_format",
]  # fmt: skip

# By pair: the model, whose thresholds the program knows, and the segments. What happens to each is in ANSWERS.
SEGMENTS = {
    "zhen": (
        "qwen2.5-72b-instruct",
        [
            ("没有错误。", "Nothing is wrong."),
            ("他坐在河岸上。", "He agreed at the bank."),
            ("他否认了。", "He denied it, softly."),
            ("第一次回答。", "Consent comes first."),
            ("上级让步。", "The superior concedes."),
            ("第二次回答。", "Consent comes second."),
            ("带引号的意见。", "The opinion is quoted."),
            ("没有人让步。", "No agent concedes."),
            ("奇怪的回答。", "Odd answers are given."),
        ],
    ),
    "ende": (
        "gpt-4o-mini",
        [("He sat on the bank.", "Er saß auf der Bank."), ("Nothing more.", "Nichts weiter, sonst nichts.")],
    ),
}


def found(exist, severity, explanation):
    return f"Error Exist: {exist}\nError Severity: {severity}\nExplanation: {explanation}"


def evaluates(text, agent, answer):
    return ([f"SE definition of {agent}.", text], answer, [0.0])


def corrects(text, agent, answer):
    return ([f"SRc definition of {agent}.", text], answer, [0.0])


def compares(text, agent, answer, *logprobs):
    return ([f"SRv definition of {agent}.", text], answer, list(logprobs) or [0.0])


def discusses(text, agent, *answers):
    """Rounds 0 to 3. What is answered in round 0 goes by the type that the evaluation names."""
    rounds = ["tier 1 round 1", "tier 2 round 1", "tier 1 round 2", "tier 2 round 2"]
    return [
        ([f"CD {said}", f"Error Type: {agent}\n", text], answer, [0.0]) for said, answer in zip(rounds, answers)
    ]


AGREE = "I agree with him."
DISAGREE = "It is a major error, without any doubt."
QUOTED = "Error Exist: 'Yes'.\nError Severity: 'Minor'.\nThe sense is kept."
BARE = "Error Exist: Yes.\nError Severity: Minor.\nThe sense is kept."
MAJOR = found("Yes.", "Major.", 'The words "at the bank" are wrong.\nSo it is.')


def discussed(text, *answers):
    """A major mistranslation that is surely confirmed and discussed."""
    return [
        evaluates(text, "Mistranslation", MAJOR),
        corrects(text, "Mistranslation", "Corrected English Translation: He sat on the shore."),
        compares(text, "Mistranslation", "A", 0.0),
        *discusses(text, "Mistranslation", *answers),
    ]


# The first entry whose cues all stand in a chat gives its answer, with the log-probabilities of its tokens.
ANSWERS = [
    *discussed("He agreed at the bank.", AGREE),
    *discussed("Consent comes first.", QUOTED, "I agree with him"),
    *discussed("The superior concedes.", BARE, DISAGREE, AGREE),
    *discussed("Consent comes second.", BARE, DISAGREE, "I insist.", "I agree with him"),
    *discussed("The opinion is quoted.", QUOTED, DISAGREE, "I insist.", "I agree with him"),
    *discussed("No agent concedes.", BARE, DISAGREE, "I insist.", "I still disagree with him"),
    # A minor punctuation that the superior denies, an error that the correction does not change, a severity in lower case.
    evaluates("He denied it, softly.", "Punctuation", found("'Yes'.", "'Minor'.", "The comma.")),
    corrects("He denied it, softly.", "Punctuation", "Corrected English Translation: He denied it softly."),
    compares("He denied it, softly.", "Punctuation", "A.", -0.01, -0.002),
    *discusses("He denied it, softly.", "Punctuation", "Error Exist: 'No'.\nError Severity: 'Neutral'.", AGREE),
    evaluates("He denied it, softly.", "Awkward", found("Yes.", "Minor.", "It is stiff.")),
    corrects("He denied it, softly.", "Awkward", "Translation: He said no. Translation: Or so."),
    compares("He denied it, softly.", "Awkward", "B", -0.3),
    evaluates("He denied it, softly.", "Spelling", found("Yes.", "major", "It is misspelt.")),
    corrects("He denied it, softly.", "Spelling", "Translation: He denied it, softly!"),
    compares("He denied it, softly.", "Spelling", "A", -0.5),
    *discusses("He denied it, softly.", "Spelling", AGREE),
    # Existence in lower case is discussed without reflection; a comparison that is neither leaves all as it was; a minor
    # punctuation that stays.
    evaluates("Odd answers are given.", "Omission", found("yes.", "Minor.", "A word is missing.")),
    *discusses("Odd answers are given.", "Omission", AGREE),
    evaluates("Odd answers are given.", "Grammar", found("Yes.", "Major.", "The verb.")),
    corrects("Odd answers are given.", "Grammar", "Corrected English Translation: Odd answers were given."),
    compares("Odd answers are given.", "Grammar", "neither", -1.5),
    *discusses("Odd answers are given.", "Grammar", "Error Exist: Yes, Error Severity: Major, as he says.", "I agree with it"),
    evaluates("Odd answers are given.", "Punctuation", found("Yes.", "Minor.", "The full stop.")),
    corrects("Odd answers are given.", "Punctuation", "Corrected English Translation: Odd answers are given!"),
    compares("Odd answers are given.", "Punctuation", "A", -1e-05),
    *discusses("Odd answers are given.", "Punctuation", "None", DISAGREE, "I insist.", "I agree with him"),
    # Below and above the threshold.
    evaluates("Er saß auf der Bank.", "Mistranslation", found("Yes.", "Major.", '"Bank" is wrong.')),
    corrects("Er saß auf der Bank.", "Mistranslation", "Corrected Germany Translation: Er saß am Ufer."),
    compares("Er saß auf der Bank.", "Mistranslation", "A", -0.01),
    *discusses("Er saß auf der Bank.", "Mistranslation", "Error Exist: Yes\nError Severity: Minor, it is small", AGREE),
    evaluates("Er saß auf der Bank.", "Addition", found("Yes.", "Minor.", '"auf" is added.')),
    corrects("Er saß auf der Bank.", "Addition", "Corrected Germany Translation: Er saß der Bank."),
    compares("Er saß auf der Bank.", "Addition", "A", -0.001),
    (["SE format"], "Error Exist: No.\nError severity: Neutral.\nExplanation: None.", [0.0]),
]


class TokenLogprob:
    """Prints as the client's own class does: the program reads the printed form."""

    def __init__(self, logprob):
        self.logprob = logprob

    def __repr__(self):
        return f"ChatCompletionTokenLogprob(token='A', bytes=[65], logprob={self.logprob}, top_logprobs=[])"


class Service:
    """Answers questions and keeps them, by segment and stage."""

    def __init__(self, texts):
        self.texts = texts
        self.agent = None
        self.asked = collections.defaultdict(lambda: collections.defaultdict(list))
        self.params = set()

    def create(self, messages, **params):
        chat = "".join(message["content"] + "\n" for message in messages)
        answer, logprobs = next(
            (answer, logprobs) for cues, answer, logprobs in ANSWERS if all(cue in chat for cue in cues)
        )
        nth = next(i for i, (_, hypothesis) in enumerate(self.texts) if hypothesis in chat)
        stages = {"SE system": "evaluate", "SRc system": "correct", "SRv system": "compare"}
        stage = next((stage for cue, stage in stages.items() if cue in messages[0]["content"]), "discuss")
        sent = "".join(f"{message['role']}\n{message['content']}\0" for message in messages).encode()
        self.asked[nth][f"{stage}/{self.agent}"].append(hashlib.sha256(sent).hexdigest())
        self.params.add(json.dumps({name: params[name] for name in ["max_tokens", "temperature", "seed"]}))
        choice = types.SimpleNamespace(
            message=types.SimpleNamespace(content=answer),
            logprobs=types.SimpleNamespace(content=[TokenLogprob(logprob) for logprob in logprobs]),
        )
        return types.SimpleNamespace(choices=[choice])


def module(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(contents)


def stand_ins(service):
    completions = types.SimpleNamespace(create=service.create)
    client = types.SimpleNamespace(chat=types.SimpleNamespace(completions=completions))
    module("openai", OpenAI=lambda **_: client)
    bar = types.SimpleNamespace(update=lambda _: None)
    module("tqdm", tqdm=lambda **_: contextlib.nullcontext(bar))


def run(code, script, *args):
    sys.argv = [script, *args]
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(os.path.join(code, script), run_name="__main__")


def messages(code, prompts, pair):
    """What the program sends for each segment of a pair, and its scores after each stage."""
    model, texts = SEGMENTS[pair]
    folder = f"../data/wmt22/{pair}/system"
    os.makedirs(folder)
    for nth, name in enumerate(["source.txt", "hyp.txt"]):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.writelines(text[nth] + "\n" for text in texts)
    service = Service(texts)
    # Every run imports the program's modules anew, with this service.
    own = [name for name in sys.modules if name[:3] in {"s1_", "s2_", "s3_", "s4_"} or name in {"record", "get_lst"}]
    for name in own:
        del sys.modules[name]
    stand_ins(service)
    for agent in AGENTS:
        service.agent = agent
        args = ["-m", model, "-l", pair, "-d", "wmt22", "--system", "system", "--agent-type", agent]
        args += ["--dataset-prefix", "../data", "--agent-type-prefix", prompts, "--key", "none", "--url", "none"]
        run(code, "pipeline.py", *args)
    scores = {}
    for stage in ["SE", "SRv", "CD"]:
        run(code, "score_computation.py", "-l", f"../logs/wmt22/{pair}/system", "-s", stage, "-o", "scores.txt")
        with open("scores.txt") as file:
            scores[stage] = [float(line) for line in file]
    (params,) = service.params
    found = [
        {
            "source": source,
            "hypothesis": hypothesis,
            "scores": {stage: of_stage[nth] for stage, of_stage in scores.items()},
            "asked": service.asked[nth],
        }
        for nth, (source, hypothesis) in enumerate(texts)
    ]
    return {"model": model, "params": json.loads(params), "segments": found}


def main():
    code = os.path.abspath(sys.argv[1])
    prompts = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/himate/prompts")
    sys.path.insert(0, code)
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/code")
        os.chdir(f"{folder}/code")
        pairs = {pair: messages(code, prompts, pair) for pair in SEGMENTS}
        os.chdir("/")
    versions = f"Python {sys.version.split()[0]} and numpy {numpy.__version__}"
    golden = {
        "made_by": f"scripts/golden_himate.py with {versions}",
        "source": "nlp2ct-shijie/HiMATE, code/ at f3cbb3e782674ad5b49e16d60d12a5ddd7c74cfc",
        "answers": [{"cues": cues, "text": text, "logprobs": logprobs} for cues, text, logprobs in ANSWERS],
        "pairs": pairs,
    }
    print(json.dumps(golden, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
