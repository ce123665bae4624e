//! The `tribunal` command. Everything it does is in the library.

fn main() -> std::process::ExitCode {
    tribunal::cli::main()
}
