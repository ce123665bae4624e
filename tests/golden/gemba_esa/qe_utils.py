"""A stand-in for the published file of this name, for tests: it has the published names, and its texts are ours."""

SYSTEM_PROMPT = "You mark errors (a stand-in)."

# By domain.
DOMAIN_REQUIREMENTS = {
    "news": (
        "Formal, as in a \"newspaper\" (a stand-in). "
        "Tags stay."
    ),
    "social": "Informal (a stand-in).",
    "general": (
        "Accurate (a stand-in)."
    ),
}

_STAGE1_ANNOTATION_BODY = (
    "Mark every error in a list (a stand-in).\n\n"
    "Major:\n"
    "category/subcategory - \"error span\"\n"
    "Minor:\n"
    "category/subcategory - \"error span\""
)

_STAGE2_SCORING_BODY = (
    "How good is this {tgt_name} for this {src_name}? (a stand-in) {domain_req}\n"
    "<{src_text}>\n"
    "<{hyp_text}>\n"
    "<{error_spans}>\n"
    "Write {{\"score\": N}}."
)

TARGET_PAIRS = {
    "en-de":   {"src_name": "English", "tgt_name": "German",              "src_code": "eng_Latn", "tgt_code": "deu_Latn"},
    "en-zhcn": {"src_name": "English", "tgt_name": "Simplified Chinese",  "src_code": "eng_Latn", "tgt_code": "zho_Hans"},
    "en-zhtw": {"src_name": "English", "tgt_name": "Traditional Chinese", "src_code": "eng_Latn", "tgt_code": "zho_Hant_TW"},
}


def build_stage1_prompt(src_text: str, hyp_text: str, cfg: dict, domain: str) -> str:
    """The question for spans."""
    src_name = cfg["src_name"]
    tgt_name = cfg["tgt_name"]
    domain_req = DOMAIN_REQUIREMENTS[domain]
    return (
        f"In {src_name}: <{src_text}>\n"
        f"In {tgt_name}: <{hyp_text}>\n\n"
        f"{_STAGE1_ANNOTATION_BODY}\n\n"
        f"{domain_req}"
    )


def build_stage2_prompt(src_text: str, hyp_text: str, stage1_output: str, cfg: dict, domain: str) -> str:
    """The question for a score."""
    return _STAGE2_SCORING_BODY.format(
        src_name=cfg["src_name"],
        tgt_name=cfg["tgt_name"],
        domain_req=DOMAIN_REQUIREMENTS[domain],
        src_text=src_text,
        hyp_text=hyp_text,
        error_spans=stage1_output,
    )
