# SPDX-License-Identifier: GPL-2.0
#
# watching.gp DIRECTORY SVG: plot what a device's counters do while its peer is stopped, and while packets get lost.
# DIRECTORY is the output of the job demo/watching.

directory = ARG1
set terminal svg noenhanced size 900,520 font "sans,11" background "white"
set output ARG2
begin = real(system(sprintf("head -n 1 '%s/phases.tsv' | cut -d' ' -f1", directory)))
samples(host) = sprintf("%s/samples-%s.tsv", directory, host)
# A counter's growth in a second: "time growth", for the column.
rate(host, column, unit) = sprintf("< awk 'NR > 2 { printf \"%%.3f %%.3f\\n\", $1, ($%d - last) / ($1 - time) / %d } \
	{ time = $1; last = $%d }' '%s'", column, unit, column, samples(host))
phases = int(system(sprintf("wc -l <'%s/phases.tsv'", directory)))
array names[phases]
array times[phases]
do for [i=1:phases] {
	names[i] = system(sprintf("sed -n '%dp' '%s/phases.tsv' | cut -d' ' -f2-", i, directory))
	times[i] = real(system(sprintf("sed -n '%dp' '%s/phases.tsv' | cut -d' ' -f1", i, directory))) - begin
}
set xrange [-1:24]
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
set ylabel "counts in a second"
set xlabel "seconds"
set logscale y
set yrange [1:]
plot rate("a", 3, 1) using ($1 - begin):2 title "A: tx_stalls_window" with linespoints pt 1, \
	rate("a", 4, 1) using ($1 - begin):2 title "A: tcp_retransmits" with linespoints pt 2, \
	rate("b", 3, 1) using ($1 - begin):2 title "B: rx_stalls" with linespoints pt 4, \
	rate("b", 4, 1) using ($1 - begin):2 title "B: tcp_out_of_order" with linespoints pt 6
unset multiplot
