#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# Over IPv6: connections, in every way, and some of everything else, which does not
# know over what it runs.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
verbs "$PEER6" -t 'connections,abandon,private-data,reject,closed-port,listen-*,server-first,'\
'disconnect*,killed,tos,send,write,read,inline,zero-length,reads-3,both-ways,receive-no-queue,long-1'
