# SPDX-License-Identifier: GPL-2.0
#
# watching.gp DIRECTORY SVG: plot what a device's counters do while its peer is stopped, and while packets get lost.
# DIRECTORY is the output of the job admin/watching.

directory = ARG1
set terminal svg noenhanced size 900,520 font "sans,11" background "white"
set output ARG2
begin = real(system(sprintf("head -n 1 '%s/phases.tsv' | cut -d' ' -f1", directory)))
samples(host) = sprintf("%s/samples-%s.tsv", directory, host)
# A counter's growth in a second: "time growth", for the column.
rate(host, column, unit) = sprintf("< awk 'NR > 2 { printf \"%%.3f %%.3f\\n\", $1, ($%d - last) / ($1 - time) / %d } \
	{ time = $1; last = $%d }' '%s'", column, unit, column, samples(host))
# What a counter has counted since the first sample, where that is not 0.
count(host, column) = sprintf("< awk 'NR == 2 { first = $%d } NR > 1 && $%d > first { printf \"%%.3f %%d\\n\", $1 - %.3f, \
	$%d - first }' '%s'", column, column, begin, column, samples(host))
phases = int(system(sprintf("wc -l <'%s/phases.tsv'", directory)))
array names[phases]
array times[phases]
do for [i=1:phases] {
	names[i] = system(sprintf("sed -n '%dp' '%s/phases.tsv' | cut -d' ' -f2-", i, directory))
	times[i] = real(system(sprintf("sed -n '%dp' '%s/phases.tsv' | cut -d' ' -f1", i, directory))) - begin
}
set xrange [-1:times[phases] + 4]
set grid
set key outside right center
set lmargin 10
set rmargin 28
do for [i=1:phases] {
	set arrow i from times[i], graph 0 to times[i], graph 1 nohead dt 2 lc "gray40"
	set label i names[i] at times[i], graph 1.04 font "sans,9"
}
set multiplot layout 2,1
set tmargin 3
set ylabel "MiB/s"
plot rate("a", 2, 1048576) using ($1 - begin):2 title "A: tx_bytes" with lines lw 2
unset label
set tmargin 1
set ylabel "counts"
set xlabel "seconds"
set logscale y
set yrange [0.7:]
plot count("a", 3) title "A: tx_stalls_window" with steps lw 2, \
	count("a", 4) title "A: tcp_retransmits" with steps lw 2, \
	count("b", 3) title "B: rx_stalls" with steps lw 2, \
	count("b", 4) title "B: tcp_out_of_order" with steps lw 2
unset multiplot
