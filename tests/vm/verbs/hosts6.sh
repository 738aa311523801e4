#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# Verbs tests over IPv6: all that concern connections, and some of the others, to which
# the network makes no difference.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
verbs "$PEER6" -t 'connections,abandon,private-data,reject,closed-port,listen-*,server-first,'\
'disconnect*,killed,tos,send,write,read,inline,zero-length,reads-3,both-ways,receive-no-queue,long-1'
