# SPDX-License-Identifier: GPL-2.0
#
# present.gp TABLE SVG: plot the present figures, a group of bars for each row. The table has a column for each
# kind of transport with its name as header. Documentation/bench/present.svg is that of present.dat there.

set terminal svg noenhanced size 760,400 font "sans,12" background "white"
set output ARG2
set title "64 KiB messages between two hosts of one emulated CPU, 2026-11-29"
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set ylabel "MiB/s"
set yrange [0:440]
set grid ytics
set key below maxcols 3
plot for [i=2:6] ARG1 using i:xtic(1) title columnheader
