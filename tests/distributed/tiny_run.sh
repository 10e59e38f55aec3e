# Sourced by tests of the program: makes store.h5 from a few lines of text and run.cfg, a very small model over it, in the
# current folder. $heddle is the program.
for i in $(seq 40); do printf 'Tale %d: the weaver lifts the warp %d times, then rests.\n\n' "$i" $((i * i)); done >text.txt
"$heddle" data build text.txt -o store.h5 --data.tokenizer bytes --data.split blank_lines --data.validation_fraction 0.1 >/dev/null
cat >run.cfg <<'CONFIG'
[data]
store = store.h5
[model]
hidden_size = 16
layers = 1
query_heads = 2
kv_heads = 1
head_dim = 8
[moe]
experts = 4
intermediate = 8
[train]
global_batch = 4
micro_batch = 1
sequence_length = 16
CONFIG

# last_child PID: the latest process that the given one has started.
last_child() { awk -v parent="$1" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2>/dev/null | sort -n | tail -n 1; }
