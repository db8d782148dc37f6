#!/bin/sh
# What is to be measured on a GPU, each within minutes; what was stopped goes on with the same command.
#
#     benchmarks/on_a_gpu.sh rate  PHOTOS FOLDER            # steps a second, dense and SLS, with data
#     benchmarks/on_a_gpu.sh train PHOTOS FOLDER TEST...    # a CARN x4 for the zoo
#     benchmarks/on_a_gpu.sh prune PHOTOS FOLDER TEST...    # the zoo's to 1/8: SLS beside one-shot
#     benchmarks/on_a_gpu.sh grid  PHOTOS FOLDER TEST...    # GRID (table2-carn-x4), by WORKERS (2)
#     benchmarks/on_a_gpu.sh pack  FOLDER PARTS             # a folder as files of at most 15 MiB, to
#     benchmarks/on_a_gpu.sh unpack PARTS                   # go on elsewhere under the same name
#
# Run it at the root of a clone. PHOTOS holds the training photos, each TEST pictures to score on.
# SECONDS_LEFT (480) ends training in time. CHANGES are more changes to the recipe: with
# CHANGES="--set train.steps=20000 --set prune.look_every=100" a cell of a grid takes a minute or two.
# While one worker compiles, the other has the GPU. Scoring does not need one: give a grid one small
# TEST there, and once all is trained the others to the same command at home. A grid knows its photos
# by their folder's name, so call it the same everywhere.
set -eu
what=$1
here=$(dirname "$0")
export PYTHONPATH="${PYTHONPATH:-$here/../src}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}"
in_time="timeout --signal=INT ${SECONDS_LEFT:-480}"

well() {  # COMMAND...: runs it; time may run out, and photos or cells may have failed, and say so
    "$@" || case $? in 1 | 124) ;; *) return 2 ;; esac
}

compare() {  # GRID FOLDER TEST...
    grid=$1 folder=$2
    shift 2
    well $in_time python3 -m scumble compare "$grid" -o "$folder" $changes \
        $(printf -- '--data %s ' "$@")
}

if [ "$what" = pack ]; then
    mkdir -p "$3"
    rm -f "$3"/part-*
    # Nobody goes on from the state of a cell that is at its end.
    find "$2" -path '*/cells/*/network.safetensors' -printf '%h/state.safetensors\n' > "$2/at-the-end"
    tar czf "$3/whole" --exclude-from="$2/at-the-end" --exclude=claims "$2"
    split -b 15m "$3/whole" "$3/part-"
    rm "$3/whole"
    exit
elif [ "$what" = unpack ]; then
    cat "$2"/part-* | tar xz
    exit
fi

photos=$2 folder=$3
shift 3
changes="--set data.photos=$photos ${CHANGES:-}"
seldom="--set watch.validate_every=10000 --set watch.save_every=10000"
mkdir -p "$folder"
# What was compiled is packed with the rest, and found again.
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$(cd "$folder" && pwd)/compiled}"
case $what in
rate)
    $in_time python3 "$here/training_rate.py" "$photos" --steps "${STEPS:-6000}" -o "$folder/rate.json"
    ;;
train)
    well $in_time python3 -m scumble train carn-x4-short -o "$folder" \
        --set data.smaller='[0.75,0.5]' --set train.steps=130000 --set train.lr=6e-4 \
        --set train.warmup=1000 $seldom $changes
    for test in "$@"; do
        python3 -m scumble evaluate -n "$folder/best.safetensors" --data "$test" | tail -2
    done
    ;;
prune)
    compare "$here/prune-carn.yaml" "$folder" "$@"
    ;;
grid)
    changes="$seldom $changes" workers=
    for worker in $(seq "${WORKERS:-2}"); do
        compare "${GRID:-table2-carn-x4}" "$folder" "$@" &
        workers="$workers $!"
    done
    for worker in $workers; do
        wait "$worker"
    done
    cat "$folder/comparison.md"
    ;;
*)
    echo "rate, train, prune, grid, pack or unpack, got $what" >&2
    exit 2
    ;;
esac
