//! Judges before scripted models: whole conversations, every branch of their readers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod gemba_esa_wmt26;
mod himate_code;
mod judges;
mod judges_charges;
mod judges_comet;
mod judges_eaprompt;
mod judges_expected;
mod judges_fsp;
mod judges_gemba;
mod judges_gemba_mqm;
mod judges_heads;
mod judges_published;
mod judges_qe;
mod judges_samples;
mod judges_thinking;
mod m_mad;
mod m_mad_code;
mod method_file;
mod mqm_ape;
mod rate;
mod reasoning;
mod signature;
mod untranslated;
