/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracepoints of rsiw. lib.rs has a function for each.
 *
 * A device is given by the bytes of its name, which need no NUL behind them.
 */

#undef TRACE_SYSTEM
#define TRACE_SYSTEM rsiw

#if !defined(_RSIW_TRACE_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RSIW_TRACE_EVENTS_H

#include <linux/tracepoint.h>

#define rsiw_show_qp_state(state)		\
	__print_symbolic(state,			\
		{ 0, "IDLE" },			\
		{ 1, "RTS" },			\
		{ 2, "CLOSING" },		\
		{ 3, "TERMINATE" },		\
		{ 4, "ERROR" })

#define rsiw_show_stage(stage)			\
	__print_symbolic(stage,			\
		{ 0, "await-turn" },		\
		{ 1, "connecting" },		\
		{ 2, "backoff" },		\
		{ 3, "await-reply" },		\
		{ 4, "await-octet" },		\
		{ 5, "securing" },		\
		{ 6, "await-request" },		\
		{ 7, "requested" },		\
		{ 8, "streaming" },		\
		{ 9, "draining" },		\
		{ 10, "fin-sent" },		\
		{ 11, "linger" },		\
		{ 12, "retry" },		\
		{ 13, "closed" },		\
		{ 14, "queued" },		\
		{ 15, "parked" })

/* RDMAP opcodes (RFC 5040, figure 4); and the RTR, which is an empty Send. */
#define rsiw_show_opcode(opcode)		\
	__print_symbolic(opcode,		\
		{ 0, "Write" },			\
		{ 1, "Read-Request" },		\
		{ 2, "Read-Response" },		\
		{ 3, "Send" },			\
		{ 4, "Send-Inv" },		\
		{ 5, "Send-SE" },		\
		{ 6, "Send-SE-Inv" },		\
		{ 7, "Terminate" },		\
		{ 16, "RTR" })

#define rsiw_show_stall(cause)			\
	__print_symbolic(cause,			\
		{ 0, "window" },		\
		{ 1, "memory" },		\
		{ 2, "ORD" },			\
		{ 3, "fence" },			\
		{ 4, "no-receive" },		\
		{ 5, "IRD" })

#define rsiw_show_tx(what)			\
	__print_symbolic(what,			\
		{ 0, "wake" },			\
		{ 1, "run" },			\
		{ 2, "sleep" },			\
		{ 3, "hand-over" })

#define rsiw_show_way(out)	((out) ? "out" : "in")

/* A connection goes to another stage. @conn numbers the device's connections. */
TRACE_EVENT(rsiw_cm_stage,
	TP_PROTO(const char *dev, u32 dev_len, u64 conn, u8 from, u8 to, u32 events),
	TP_ARGS(dev, dev_len, conn, from, to, events),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u64, conn)
		__field(u8, from)
		__field(u8, to)
		__field(u32, events)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->conn = conn;
		__entry->from = from;
		__entry->to = to;
		__entry->events = events;
	),
	TP_printk("dev=%s conn=%llu from=%s to=%s events=%#x", __get_str(dev), __entry->conn,
		  rsiw_show_stage(__entry->from), rsiw_show_stage(__entry->to), __entry->events)
);

/* An MPA Request or Reply, by what follows its key. */
TRACE_EVENT(rsiw_mpa_frame,
	TP_PROTO(const char *dev, u32 dev_len, u64 conn, bool out, bool reply, u8 flags,
		 u8 revision, u16 len),
	TP_ARGS(dev, dev_len, conn, out, reply, flags, revision, len),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u64, conn)
		__field(bool, out)
		__field(bool, reply)
		__field(u8, flags)
		__field(u8, revision)
		__field(u16, len)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->conn = conn;
		__entry->out = out;
		__entry->reply = reply;
		__entry->flags = flags;
		__entry->revision = revision;
		__entry->len = len;
	),
	TP_printk("dev=%s conn=%llu %s %s flags=%#04x revision=%u private_data=%u",
		  __get_str(dev), __entry->conn, rsiw_show_way(__entry->out),
		  __entry->reply ? "Reply" : "Request",
		  __entry->flags, __entry->revision, __entry->len)
);

/*
 * @count FPDUs of one message, each with @len bytes beside markers, are in the
 * batch for TCP.
 */
TRACE_EVENT(rsiw_fpdu_tx,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 opcode, u32 len, u32 count),
	TP_ARGS(dev, dev_len, qpn, opcode, len, count),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, opcode)
		__field(u32, len)
		__field(u32, count)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->len = len;
		__entry->count = count;
	),
	TP_printk("dev=%s qpn=%u %s len=%u count=%u", __get_str(dev), __entry->qpn,
		  rsiw_show_opcode(__entry->opcode), __entry->len, __entry->count)
);

/* A segment with a payload of @len bytes begins to be placed. */
TRACE_EVENT(rsiw_fpdu_rx,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 opcode, u32 stag, u64 offset, u32 len,
		 bool last),
	TP_ARGS(dev, dev_len, qpn, opcode, stag, offset, len, last),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, opcode)
		__field(u32, stag)
		__field(u64, offset)
		__field(u32, len)
		__field(bool, last)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->stag = stag;
		__entry->offset = offset;
		__entry->len = len;
		__entry->last = last;
	),
	TP_printk("dev=%s qpn=%u %s stag=%#x offset=%#llx len=%u last=%d", __get_str(dev),
		  __entry->qpn, rsiw_show_opcode(__entry->opcode), __entry->stag, __entry->offset,
		  __entry->len, __entry->last)
);

/* A whole message has come. */
TRACE_EVENT(rsiw_message_rx,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 opcode, u32 len),
	TP_ARGS(dev, dev_len, qpn, opcode, len),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, opcode)
		__field(u32, len)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->len = len;
	),
	TP_printk("dev=%s qpn=%u %s len=%u", __get_str(dev), __entry->qpn,
		  rsiw_show_opcode(__entry->opcode), __entry->len)
);

/* Data of the peer are refused; by the error that a Terminate would report. */
TRACE_EVENT(rsiw_refused,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 layer, u8 etype, u8 code),
	TP_ARGS(dev, dev_len, qpn, layer, etype, code),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, layer)
		__field(u8, etype)
		__field(u8, code)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->layer = layer;
		__entry->etype = etype;
		__entry->code = code;
	),
	TP_printk("dev=%s qpn=%u layer=%u type=%u code=%#04x", __get_str(dev), __entry->qpn,
		  __entry->layer, __entry->etype, __entry->code)
);

/* A Terminate is sent, or has come. */
TRACE_EVENT(rsiw_terminate,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, bool out, u8 layer, u8 etype, u8 code),
	TP_ARGS(dev, dev_len, qpn, out, layer, etype, code),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(bool, out)
		__field(u8, layer)
		__field(u8, etype)
		__field(u8, code)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->out = out;
		__entry->layer = layer;
		__entry->etype = etype;
		__entry->code = code;
	),
	TP_printk("dev=%s qpn=%u %s layer=%u type=%u code=%#04x", __get_str(dev), __entry->qpn,
		  rsiw_show_way(__entry->out), __entry->layer, __entry->etype, __entry->code)
);

/* Something waits; the counters of the same names count it. */
TRACE_EVENT(rsiw_stall,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 cause),
	TP_ARGS(dev, dev_len, qpn, cause),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, cause)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->cause = cause;
	),
	TP_printk("dev=%s qpn=%u %s", __get_str(dev), __entry->qpn,
		  rsiw_show_stall(__entry->cause))
);

/* A queue pair goes to another state. */
TRACE_EVENT(rsiw_qp_state,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 from, u8 to),
	TP_ARGS(dev, dev_len, qpn, from, to),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("dev=%s qpn=%u from=%s to=%s", __get_str(dev), __entry->qpn,
		  rsiw_show_qp_state(__entry->from), rsiw_show_qp_state(__entry->to))
);

/* Tx is woken, runs, or has nothing to do. */
TRACE_EVENT(rsiw_tx,
	TP_PROTO(const char *dev, u32 dev_len, u32 qpn, u8 what),
	TP_ARGS(dev, dev_len, qpn, what),
	TP_STRUCT__entry(
		__string_len(dev, dev, dev_len)
		__field(u32, qpn)
		__field(u8, what)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->what = what;
	),
	TP_printk("dev=%s qpn=%u %s", __get_str(dev), __entry->qpn, rsiw_show_tx(__entry->what))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
