# SPDX-License-Identifier: GPL-2.0
#
# nfs.gp TABLE SVG: plot throughput, and CPU time per MiB, of NFS reads by size. The table's columns: size,
# transport (a word), MiB/s, load of the client and of the server, ms of CPU per MiB.

table = ARG1
set terminal svg noenhanced size 900,420 font "sans,11" background "white"
set output ARG2
set multiplot layout 1,2 title "NFS 4.2, direct reads, two hosts of one CPU"
set style data linespoints
set xrange [-0.2:2.2]
set xtics ("2 KiB" 0, "16 KiB" 1, "256 KiB" 2)
set logscale y
set grid y
set key left top
of(kind) = sprintf("< awk '$2 == \"%s\" { print $(NF - 3), $NF }' %s", kind, table)
kinds = system(sprintf("awk 'NR > 1 && !seen[$2]++ { print $2 }' %s | paste -sd' '", table))
set ylabel "MiB/s"
plot for [i=1:words(kinds)] of(word(kinds, i)) using 0:1 title word(kinds, i) lw 2 pt i
set ylabel "ms of CPU (client and server) per MiB"
set key right top
plot for [i=1:words(kinds)] of(word(kinds, i)) using 0:2 title word(kinds, i) lw 2 pt i
unset multiplot
