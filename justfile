# What can be done here; `just` alone lists it.
default:
    @just --list

# Everything that must pass: formatting, lints, docs, tests.
check:
    .ci/run

# All tests.
test:
    cargo test --release --workspace

# The demonstration.
demo:
    cargo run --release -- demo

# Speeds of the engine, of recall and of the worlds.
bench:
    cargo run --release -- bench train --shape small
    cargo run --release -- bench recall --memories 1000
    cargo run --release -- bench world

# The same training step in PyTorch, interleaved (needs `pip install torch`).
bench-torch shape="small" python="python3":
    cargo run --release -- bench train --shape {{shape}} --rounds 5 --peer "{{python}} benches/peers/torch_dit.py cpu --shape {{shape}}"

# The library documentation.
docs:
    cargo doc --workspace --no-deps --open

# Licenses and advisories (needs `cargo install cargo-deny`).
deny:
    cargo deny check

# Fuzz one reader of bytes for ten minutes (needs a nightly toolchain and `cargo install cargo-fuzz`).
fuzz target seconds="600":
    cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}

# Make the golden tensors again (needs `pip install torch torchvision lpips scikit-image safetensors numpy`).
fixtures python="python3":
    {{python}} scripts/make_dit_fixtures.py
    {{python}} scripts/make_fixtures.py
    {{python}} scripts/make_encoder_fixtures.py
    {{python}} scripts/make_metric_fixtures.py
    {{python}} scripts/make_longlive_fixtures.py
    {{python}} scripts/make_retriever_fixtures.py
    {{python}} scripts/make_taesd_fixtures.py

# Make the weights of LPIPS, into $FAR_CACHE or ~/.cache/far (needs `pip install safetensors numpy`).
lpips-weights python="python3":
    {{python}} scripts/make_lpips_weights.py

# Make the weights of a tokenizer of the TAESD family of its two published files (needs `pip install safetensors numpy`).
taesd-weights encoder decoder python="python3":
    {{python}} scripts/make_taesd_weights.py {{encoder}} {{decoder}}
