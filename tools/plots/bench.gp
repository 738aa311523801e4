# SPDX-License-Identifier: GPL-2.0
#
# bench.gp TABLE SVG: plot bandwidth by message size. The table has a row for each size, and a column for each
# kind of transport with its name as header; "?" marks a missing value.

set terminal svg noenhanced size 900,480 font "sans,11" background "white"
set output ARG2
set datafile missing "?"
set title system(sprintf("basename '%s' .dat", ARG1)).", two hosts of one emulated CPU"
set style data linespoints
set logscale x 2
set logscale y
set xtics ("64 B" 64, "256 B" 256, "1 KiB" 1024, "4 KiB" 4096, "16 KiB" 16384, "64 KiB" 65536, \
	"256 KiB" 262144, "1 MiB" 1048576)
set xlabel "message"
set ylabel "MiB/s"
set grid
set key outside right center
columns = int(system(sprintf("head -n 2 '%s' | tail -n 1 | wc -w", ARG1)))
plot for [i=2:columns] ARG1 using 1:i title columnheader lw 2 pt i
