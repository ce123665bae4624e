//! Worked examples in the layout of the authors' `few_shot_demos*.py`, which `--shots` takes in every preset.
//! Nothing is asked here.

use serde_json::{Value, json};

use crate::{
    literals::{self, SourceFile},
    setup,
    shots::Shot,
};

/// The agents' names in the file, in the order of [`super::annotation::DIMENSIONS`].
const AGENTS: [&str; 4] = ["accuracy", "fluency", "term", "style"];

/// One worked example: in the agent's form, and its parts.
#[derive(Clone)]
pub struct Demo {
    pub user: String,
    pub answer: String,
    pub shot: Shot,
}

/// The shots of each agent: three of its dimension, then a non-translation.
///
/// # Errors
/// A text that lacks the lists of an agent.
pub fn read(file: &SourceFile) -> setup::Result<[Vec<Demo>; 4]> {
    let template = file.text("user_template =")?;
    let (closing, closing_answers) = pairs(file, "nontran")?;
    let mut agents = each(AGENTS, |agent| {
        let (parts, answers) = pairs(file, agent)?;
        parts.iter().zip(&answers).map(|(parts, answer)| demo(file, &template, parts, answer)).collect()
    })?;
    for (agent, (parts, answer)) in agents.iter_mut().zip(closing.iter().zip(&closing_answers)) {
        let demos: &mut Vec<Demo> = agent;
        demos.push(demo(file, &template, parts, answer)?);
    }
    Ok(agents)
}

/// An agent's segments and answers.
fn pairs(file: &SourceFile, agent: &str) -> setup::Result<(Vec<Value>, Vec<String>)> {
    let users = format!("{agent}_user_shot =");
    let Value::Array(parts) = file.value(&users)? else {
        return Err(file.fault(&format!("`{users}` is not a list")));
    };
    let answers = file.list(&format!("{agent}_mem_shot ="))?;
    if parts.len() != answers.len() {
        return Err(file.fault(&format!(
            "`{agent}` has {} segments and {} answers",
            parts.len(),
            answers.len()
        )));
    }
    Ok((parts, answers))
}

fn demo(file: &SourceFile, template: &str, parts: &Value, answer: &str) -> setup::Result<Demo> {
    let part = |name: &str| {
        let text = parts.get(name).and_then(Value::as_str);
        text.ok_or_else(|| file.fault(&format!("a shot has no `{name}`")))
    };
    let names = ["src_lng", "source_segment", "tgt_lng", "target_segment"];
    let [source_lang, source, target_lang, target] = each(names, part)?;
    let values = names.into_iter().zip([source_lang, source, target_lang, target]).collect::<Vec<_>>();
    let shot = serde_json::from_value(json!({
        "source_lang": source_lang,
        "source": source,
        "target_lang": target_lang,
        "target": target,
        "errors": errors(file, answer)?,
    }));
    let shot = shot.map_err(|e| file.fault(&format!("the answer of a shot: {e}")))?;
    Ok(Demo { user: literals::format(template, &values), answer: answer.into(), shot })
}

/// The annotations of a shot's answer, with the field names of shots.
fn errors(file: &SourceFile, answer: &str) -> setup::Result<Vec<Value>> {
    let unread = |e: &dyn std::fmt::Display| file.fault(&format!("the answer of a shot: {e}"));
    let answer: Value = serde_json::from_str(answer).map_err(|e| unread(&e))?;
    let marked = answer["annotations"].as_array().ok_or_else(|| unread(&"it has no annotations"))?;
    let error =
        |m: &Value| json!({ "category": m["category"], "span": m["error_span"], "severity": m["severity"] });
    Ok(marked.iter().map(error).collect())
}

/// Applies a function to each name; returns the results, or the first error.
///
/// # Errors
/// Those of the function.
///
/// # Panics
/// Never: there is a value for each name.
pub fn each<'n, T, const N: usize>(
    names: [&'n str; N],
    read: impl Fn(&'n str) -> setup::Result<T>,
) -> setup::Result<[T; N]> {
    let values = names.into_iter().map(read).collect::<Result<Vec<T>, _>>()?;
    Ok(values.try_into().unwrap_or_else(|_| unreachable!("one value for each name")))
}
