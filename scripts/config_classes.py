# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0"]
# ///
"""Writes the defaults of the configuration classes of `transformers`: what a `config.json` means where it leaves a key
out.

    python scripts/config_classes.py [--table crates/model/src/config/classes.json]

The table has, by `model_type`:

  classes   the classes whose decoder or encoder the engine has: name, base of the rope, and every field with its default; `null`
            where the default is that nothing is set
  wrappers  multimodal classes (not those of assistants, which draft for another model) that keep one of these decoders' settings under `text_config`: name, the `model_type` of
            `text_config` where the file does not say it, and the default of `tie_word_embeddings`; `null` where the
            class has no such field

and two lists of keys that files of every class may have: the fields of the common base class (`base`), and settings of
generation, which older versions wrote into `config.json` (`generation`).
"""

import argparse
import json
import math
from dataclasses import MISSING, fields
from pathlib import Path

import transformers
from transformers import GenerationConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

FAMILIES = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma3_text",
    "qwen2_moe",
    "qwen3_moe",
    "glm4_moe",
    "gemma2",
    "hunyuan_v1_dense",
    "seed_oss",
    "ministral3",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "qwen3_next",
    "gemma4_text",
    "gemma4_unified_text",
    "gpt_oss",
    "deepseek_v2",
    "deepseek_v3",
    "glm4_moe_lite",
    "ministral",
    "mixtral",
    "smollm3",
    "olmo2",
    "olmo3",
    "granite",
    "granitemoehybrid",
    "glm4",
    "exaone4",
    "phi3",
    "apertus",
    "cohere",
    "cohere2",
]
ENCODERS = ["xlm-roberta", "xlm-roberta-xl", "bert"]


def defaults(cls):
    """The fields that a class adds to the base class, with their defaults."""
    base = {field.name for field in fields(PreTrainedConfig)}
    own = [field for field in fields(cls) if field.name not in base]
    missing = [field.name for field in own if field.default is MISSING]
    assert not missing, f"{cls.__name__}: {missing} have no plain default"
    return {field.name: finite(field.default) for field in own} | rope(cls)


def finite(default):
    """A default, or `None` for a range without an end, which JSON has no number for."""
    is_endless = isinstance(default, (list, tuple)) and math.inf in default
    return None if is_endless else default


def rope(cls):
    """The rope of a class where the file has none, unless it is a plain one with the class's base."""
    found = getattr(cls(), "rope_parameters", None)
    if found is None:
        return {}  # learned positions
    found = {key: value for key, value in found.items() if key != "type"}  # another name of `rope_type`
    if found == {"rope_type": "default", "rope_theta": cls.default_theta} or isinstance(cls.default_theta, dict):
        return {}
    return {"rope_parameters": found}


def described(model_type):
    cls = CONFIG_MAPPING[model_type]
    theta = cls.default_theta
    theta = (
        {"full_attention": theta["global"], "sliding_attention": theta["local"]}
        if isinstance(theta, dict)
        else theta
    )
    return {"class": cls.__name__, "rope_theta": theta, "defaults": defaults(cls)}


def wrappers():
    found = {}
    for model_type in sorted(CONFIG_MAPPING.keys()):
        cls = CONFIG_MAPPING[model_type]
        text = (getattr(cls, "sub_configs_defaults", None) or {}).get("text_config")
        if text is not None and text.model_type in FAMILIES and not model_type.endswith("_assistant"):
            tie = [field.default for field in fields(cls) if field.name == "tie_word_embeddings"]
            found[model_type] = {
                "class": cls.__name__,
                "text": text.model_type,
                "tie_word_embeddings": tie[0] if tie else None,
            }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, default=Path("crates/model/src/config/classes.json"))
    args = parser.parse_args()
    table = {
        "made_by": "scripts/config_classes.py",
        "with": {"transformers": transformers.__version__},
        "classes": {model_type: described(model_type) for model_type in FAMILIES + ENCODERS},
        "wrappers": wrappers(),
        "base": sorted(field.name for field in fields(PreTrainedConfig)),
        "generation": sorted(key for key in GenerationConfig().to_dict() if not key.startswith("_")),
    }
    args.table.write_text(compact(table), encoding="utf-8")


def compact(table):
    """JSON with a line for each field, class or list."""
    out = ["{"]
    for i, (key, value) in enumerate(table.items()):
        end = "," if i + 1 < len(table) else ""
        if key == "classes":
            out.append(f'  "{key}": {{')
            for j, (name, about) in enumerate(value.items()):
                out.append(f'    "{name}": {{')
                out.append(f'      "class": {json.dumps(about["class"])},')
                out.append(f'      "rope_theta": {json.dumps(about["rope_theta"])},')
                out.append('      "defaults": {')
                pairs = [f"        {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in about["defaults"].items()]
                out.append(",\n".join(pairs))
                out.append("      }")
                out.append("    }" + ("," if j + 1 < len(value) else ""))
            out.append("  }" + end)
        elif key == "wrappers":
            out.append(f'  "{key}": {{')
            out.append(",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()))
            out.append("  }" + end)
        else:
            out.append(f"  {json.dumps(key)}: {json.dumps(value)}{end}")
    return "\n".join([*out, "}", ""])


if __name__ == "__main__":
    main()
