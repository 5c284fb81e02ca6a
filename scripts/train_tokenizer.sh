#!/usr/bin/env bash
# Makes assets/tokenizer.safetensors again: records frames of the four built-in worlds at 64, 128 and 256 pixels, on
# seeds that nothing else uses, and trains on them. Recording takes about a minute on 16 cores and 4 GB of disk; 11,000
# updates take about six minutes on a GPU. The perceptual loss needs the weights that scripts/make_lpips_weights.py makes.
#
#     scripts/train_tokenizer.sh [OUT] [UPDATES] [FOLDER OF THE FRAMES]
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-assets/tokenizer.safetensors}"
updates="${2:-11000}"
folder="${3:-data/tokenizer}"
far="${FAR:-target/release/far}"

# World, seed at 64 pixels (at 128 and 256: the next two), episodes at 64, 128 and 256 pixels.
recordings="
village 9001 60 60 12
apartment 9011 60 60 12
kitchen 9021 40 40 8
corridor 9031 32 32 6
"
data=()
jobs=()
while read -r world seed small middle large; do
    for of in "64 $seed $small" "128 $((seed + 1)) $middle" "256 $((seed + 2)) $large"; do
        read -r size own episodes <<<"$of"
        # A scene for every episode: there are seven halls unless told otherwise.
        "$far" world record --world "$world" --size "$size" --seed "$own" --episodes "$episodes" \
            --scenes 60 --out "$folder/$world-$size" &
        jobs+=($!)
        data+=(--data "$folder/$world-$size")
        # Half of what is shown has 128 pixels.
        if [ "$size" = 128 ]; then data+=(--data "$folder/$world-$size"); fi
    done
done < <(sed '/^$/d' <<<"$recordings")
for job in "${jobs[@]}"; do wait "$job"; done
trained="$folder/trained.safetensors"
"$far" tokenizer train "${data[@]}" --out "$trained" --steps "$updates" --device cuda --fresh --json
cp "$trained" "$out"
