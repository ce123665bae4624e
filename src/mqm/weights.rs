//! Named severity-weight presets.
