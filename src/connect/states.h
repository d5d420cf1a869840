/* SPDX-License-Identifier: MIT
 *
 * The states of a communication id (IBA figure 132 and 133, and SIDR) and THE table: what each message does in each.
 */
#ifndef VB_CONNECT_STATES_H
#define VB_CONNECT_STATES_H

/* In the order of the table's columns. */
#define VB_CONNECT_STATES(X)                                                                           \
	X(UNKNOWN)           /* no such id: what a message finds that finds none */                   \
	X(IDLE)              /* created */                                                             \
	X(BOUND)             /* has a port */                                                          \
	X(LISTENING)                                                                                   \
	X(REQ_SENT)          /* active: asked */                                                       \
	X(MRA_REQ_RECEIVED)  /* active: asked, told to be patient */                                   \
	X(REP_RECEIVED)      /* active: answered; our process readies its QP */                        \
	X(REQ_RECEIVED)      /* passive: our process thinks about it */                                \
	X(REP_SENT)          /* passive: accepted */                                                   \
	X(MRA_REP_RECEIVED)  /* passive: accepted, told to be patient */                               \
	X(ESTABLISHED)                                                                                 \
	X(DREQ_SENT)                                                                                   \
	X(DREQ_RECEIVED)     /* our process has been told, its answer is due */                        \
	X(TIMEWAIT)          /* over; waits until stray packets have died */                           \
	X(REJECTED)          /* we said no; kept a while to say it again */                            \
	X(CLOSED)            /* over; waits for its process to destroy it */                           \
	X(SIDR_REQ_SENT)                                                                               \
	X(SIDR_REQ_RECEIVED)                                                                           \
	X(SIDR_ANSWERED)     /* kept to answer a repeated SIDR_REQ */

enum vb_connect_state {
#define X(name) VB_CONNECT_##name,
	VB_CONNECT_STATES(X)
#undef X
	VB_CONNECT_STATE_COUNT,
};

/* What a message makes us do. */
#define VB_CONNECT_REACTIONS(X)                                                                        \
	X(IGNORE)                                                                                      \
	X(ADMIT)             /* new request: find a listener or refuse */                              \
	X(ASK_PATIENCE)      /* a repeated message whose answer our process owes: MRA */               \
	X(REPEAT)            /* a repeated message whose answer was lost: say it again */              \
	X(REFUSE_STALE)      /* a request for a connection that has ended: REJ 10 */                   \
	X(TAKE_REPLY)                                                                                  \
	X(REFUSE_REPLY)      /* a REP for no id: REJ, so  that the peer need not wait for its timeout */ \
	X(TAKE_READY)                                                                                  \
	X(BE_PATIENT)        /* MRA: wait longer */                                                    \
	X(TAKE_REJECT)                                                                                 \
	X(TAKE_DISCONNECT)                                                                             \
	X(CROSS_DISCONNECT)  /* both sides asked at once: both answer */                               \
	X(CONFIRM_DISCONNECT) /* a repeated DREQ, or one for no id: DREP */                            \
	X(END)               /* our DREQ was answered */                                               \
	X(TAKE_FORGOTTEN)    /* the peer answers our question: it knows the connection no more */      \
	X(REFUSE_PATH)       /* LAP: no alternate paths here */                                        \
	X(ADMIT_SIDR)                                                                                  \
	X(TAKE_SIDR_REPLY)

enum vb_connect_reaction {
#define X(name) VB_CONNECT_DO_##name,
	VB_CONNECT_REACTIONS(X)
#undef X
	VB_CONNECT_REACTION_COUNT,
};

/* `attribute` is one of enum vb_cm_attribute. */
enum vb_connect_reaction vb_connect_reaction(unsigned attribute, enum vb_connect_state state);

const char *vb_connect_state_name(enum vb_connect_state state);
const char *vb_connect_reaction_name(enum vb_connect_reaction reaction);

#endif
