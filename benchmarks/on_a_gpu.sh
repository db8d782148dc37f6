#!/bin/sh
# What is to be measured on a GPU, each within minutes; what was stopped goes on with the same command.
#
#     benchmarks/on_a_gpu.sh rate  PHOTOS FOLDER            # steps a second, dense and SLS, with data
#     benchmarks/on_a_gpu.sh train PHOTOS FOLDER TEST...    # a CARN x4 for the zoo
#     benchmarks/on_a_gpu.sh prune PHOTOS FOLDER TEST...    # the zoo's to 1/8: SLS beside one-shot
#
# PHOTOS holds the training photos, each TEST pictures to score on. SECONDS_LEFT (540) ends training in
# time, CHANGES are more changes to the recipe: CHANGES="--set train.steps=100".
set -eu
what=$1 photos=$2 folder=$3
shift 3
here=$(dirname "$0")
in_time="timeout --signal=INT ${SECONDS_LEFT:-540}"
changes="--set data.photos=$photos ${CHANGES:-}"
mkdir -p "$folder"
case $what in
rate)
    $in_time python3 "$here/training_rate.py" "$photos" --steps "${STEPS:-6000}" -o "$folder/rate.json"
    ;;
train)
    $in_time python3 -m scumble train carn-x4-short -o "$folder" --set data.smaller='[0.75,0.5]' \
        --set train.steps=130000 --set train.lr=6e-4 --set train.warmup=1000 \
        --set watch.validate_every=10000 --set watch.save_every=10000 $changes || [ $? -eq 1 ]  # 1: photos were left out
    for test in "$@"; do
        python3 -m scumble evaluate -n "$folder/best.safetensors" --data "$test" | tail -2
    done
    ;;
prune)
    $in_time python3 -m scumble compare "$here/prune-carn.yaml" -o "$folder" $changes \
        $(printf -- '--data %s ' "$@")
    ;;
*)
    echo "rate, train or prune, got $what" >&2
    exit 2
    ;;
esac
