//! zk with one more vendor: `own-provider --provider aviary`.

fn main() -> std::process::ExitCode {
    zk_cli::Zk::builder().vendor(own_provider::AVIARY).run()
}
