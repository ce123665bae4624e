# Short names for what one types often; the scripts work without `just`.

# all recipes
default:
    @just --list

# build, fetch the default judge, judge the examples
quickstart:
    scripts/quickstart.sh

# everything that CI runs
test:
    scripts/test.sh

# format, clippy, unit tests: no model, no network, no other program
check:
    scripts/test.sh --fast

# format and lint, with fixes where they are mechanical
lint:
    cargo fmt
    cargo clippy --workspace --all-targets -- -D warnings

# the tests of one room: `just room scheduler`
room name:
    cargo test --workspace --exclude tribunal-python --lib {{name}}
    cargo test --test all architecture

# read the documentation as users see it
doc:
    cargo doc --no-deps --open

# licences and advisories of what we depend on (needs cargo-deny)
deny:
    cargo deny check

# write the golden files anew with the reference implementations (needs uv)
golden:
    for script in scripts/golden_*.py; do uv run "$script"; done
