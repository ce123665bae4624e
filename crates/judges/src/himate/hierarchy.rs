//! HiMATE's agents: core error types and their subtypes with the definitions of Table 8. No model is called
//! here.

use serde::{Deserialize, Serialize};

use crate::{
    mqm::{Side, typology},
    prompt::{File, Prompts, file},
    setup,
};

pub(super) const HIERARCHY: File = file!("himate/hierarchy.json");

/// A core error type: the domain of one tier-1 agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Core {
    pub name: String,
    pub subtypes: Vec<Subtype>,
}

/// An error subtype: the task of one tier-2 agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Subtype {
    pub core: String,
    pub name: String,
    pub description: String,
    /// Its spans are words of the source.
    #[serde(default)]
    pub is_omission: bool,
    /// Its path in the typology.
    #[serde(default)]
    pub path: String,
}

/// Reads the hierarchy in force.
///
/// # Errors
/// [`setup::Error::Prompt`] when it is no hierarchy, or has a subtype that the typology lacks.
pub(super) fn load(prompts: &Prompts) -> setup::Result<Vec<Core>> {
    let unfit = |reason: String| setup::Error::Prompt { file: HIERARCHY.name.into(), reason };
    let text = prompts.render(HIERARCHY, ()).map_err(setup::Error::from_prompt)?;
    let mut hierarchy: Vec<Core> = serde_json::from_str(&text).map_err(|e| unfit(e.to_string()))?;
    for subtype in hierarchy.iter_mut().flat_map(|core| &mut core.subtypes) {
        subtype.path = typology::normalise(&format!("{}/{}", subtype.core, subtype.name));
        subtype.is_omission = typology::side(&subtype.path) == Side::Source;
        if !typology::is_known(&subtype.path) {
            return Err(unfit(format!("the typology has no `{}`", subtype.path)));
        }
    }
    Ok(hierarchy)
}
