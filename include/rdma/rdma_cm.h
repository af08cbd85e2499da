/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_RDMA_CM_H
#define WEFT_RDMA_RDMA_CM_H

/* Connections by IP address (IBTA vol 1 annex A11). */

#include <linux/in6.h>
#include <linux/socket.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_sa.h>

WEFT_RDMA_BEGIN

enum rdma_cm_event_type WEFT_RDMA_ENUM {
	RDMA_CM_EVENT_ADDR_RESOLVED,
	RDMA_CM_EVENT_ADDR_ERROR,
	RDMA_CM_EVENT_ROUTE_RESOLVED,
	RDMA_CM_EVENT_ROUTE_ERROR,
	RDMA_CM_EVENT_CONNECT_REQUEST,
	RDMA_CM_EVENT_CONNECT_RESPONSE,
	RDMA_CM_EVENT_CONNECT_ERROR,
	RDMA_CM_EVENT_UNREACHABLE,
	RDMA_CM_EVENT_REJECTED,
	RDMA_CM_EVENT_ESTABLISHED,
	RDMA_CM_EVENT_DISCONNECTED,
	RDMA_CM_EVENT_DEVICE_REMOVAL,
	RDMA_CM_EVENT_MULTICAST_JOIN,
	RDMA_CM_EVENT_MULTICAST_ERROR,
	RDMA_CM_EVENT_ADDR_CHANGE,
	RDMA_CM_EVENT_TIMEWAIT_EXIT
};

/** rdma_event_msg - An event's name, for logs */
const char *rdma_event_msg(enum rdma_cm_event_type event);

enum rdma_ucm_port_space WEFT_RDMA_ENUM {
	RDMA_PS_IPOIB = 0x0002,
	RDMA_PS_IB = 0x013F,
	RDMA_PS_TCP = 0x0106,
	RDMA_PS_UDP = 0x0111
};

#define RDMA_IB_IP_PS_MASK 0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PS_TCP 0x0000000001060000ULL

struct rdma_addr {
	struct sockaddr_storage src_addr;
	struct sockaddr_storage dst_addr;
	struct rdma_dev_addr dev_addr;
};

struct rdma_route {
	struct rdma_addr addr;
	struct sa_path_rec *path_rec;
	int num_paths;
};

/**
 * struct rdma_conn_param - What a side asks of a connection, or was told that the other asks
 */
struct rdma_conn_param {
	const void *private_data;
	__u8 private_data_len;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 flow_control;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 srq;
	__u32 qp_num;
	__u32 qkey;
};

struct rdma_ud_param {
	const void *private_data;
	__u8 private_data_len;
	struct rdma_ah_attr ah_attr;
	__u32 qp_num;
	__u32 qkey;
};

/**
 * struct rdma_cm_event - What happened to an id
 * @event: which
 * @status: of RDMA_CM_EVENT_REJECTED the reason of the REJ, else 0 or a negative errno
 * @param: of a request, what the peer asks for; of an establishment, what it answered; of a rejection, its private data
 */
struct rdma_cm_event {
	enum rdma_cm_event_type event;
	int status;
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
	} param;
};

struct rdma_cm_id;

/**
 * typedef rdma_cm_event_handler - Takes the events of an id, one after the other
 *
 * May sleep. Anything but 0 destroys the id, which of RDMA_CM_EVENT_CONNECT_REQUEST is the request's new one.
 */
typedef int (*rdma_cm_event_handler)(struct rdma_cm_id *id, struct rdma_cm_event *event);

/**
 * struct rdma_cm_id - An id, from which a connection is made
 * @device: null until an address is bound to one
 * @context: its user's pointer, of a request's id the listener's, which its user may set
 * @qp: of rdma_create_qp()
 */
struct rdma_cm_id {
	struct ib_device *device;
	void *context;
	struct ib_qp *qp;
	rdma_cm_event_handler event_handler;
	struct rdma_route route;
	enum rdma_ucm_port_space ps;
	enum ib_qp_type qp_type;
	__u32 port_num;
	void *weft;
};

struct rdma_cm_id *__rdma_create_kernel_id(struct net *net, rdma_cm_event_handler event_handler,
					   void *context, enum rdma_ucm_port_space ps,
					   enum ib_qp_type qp_type, const char *caller);

/**
 * rdma_create_id - Make an id
 * @net: network namespace
 * @event_handler: called with its events
 * @context: its context
 * @ps: RDMA_PS_TCP
 * @qp_type: IB_QPT_RC
 *
 * The id, or ERR_PTR().
 */
#define rdma_create_id(net, event_handler, context, ps, qp_type) \
	__rdma_create_kernel_id(net, event_handler, context, ps, qp_type, KBUILD_MODNAME)

/** rdma_destroy_id - End an id and its connection; a fence of its events, unless called from one of them */
void rdma_destroy_id(struct rdma_cm_id *id);

/** rdma_bind_addr - Bind to an address; port 0: any that is free */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/**
 * rdma_resolve_addr - Find device and peer for an address
 * @id: id
 * @src_addr: address of this side; null: any
 * @dst_addr: whom to connect to
 * @timeout_ms: at most
 *
 * Ends with RDMA_CM_EVENT_ADDR_RESOLVED or RDMA_CM_EVENT_ADDR_ERROR.
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
		      const struct sockaddr *dst_addr, unsigned long timeout_ms);

/** rdma_resolve_route - Then find a path; ends with RDMA_CM_EVENT_ROUTE_RESOLVED or RDMA_CM_EVENT_ROUTE_ERROR */
int rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms);

/** rdma_create_qp - Make the QP of an id, which makes its transitions */
int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *qp_init_attr);
/** rdma_destroy_qp - End it: its requests have ended, or it is in error */
void rdma_destroy_qp(struct rdma_cm_id *id);

/** rdma_connect - REQ; ends with an establishment, a rejection or an error */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/** rdma_connect_locked - The same from inside the id's handler */
int rdma_connect_locked(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/** rdma_listen - Take requests */
int rdma_listen(struct rdma_cm_id *id, int backlog);
/** rdma_accept - REP to a request whose QP is made */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
/** rdma_reject - REJ with private data of at most 148 bytes */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, __u8 private_data_len,
		__u8 reason);
/** rdma_disconnect - DREQ, or DREP where one has come; the QP goes to error */
int rdma_disconnect(struct rdma_cm_id *id);
/** rdma_notify - Tell of an event of the QP: IB_EVENT_COMM_EST */
int rdma_notify(struct rdma_cm_id *id, enum ib_event_type event);

/** rdma_set_service_type - Type of service of the connection, before its route is resolved */
void rdma_set_service_type(struct rdma_cm_id *id, int tos);

/** rdma_reject_msg - A REJ's reason in words */
const char *rdma_reject_msg(struct rdma_cm_id *id, int reason);
/** rdma_is_consumer_reject - Whether the peer's user rejected */
bool rdma_is_consumer_reject(struct rdma_cm_id *id, int reason);
/** rdma_consumer_reject_data - What it said; null: it was not the peer's user */
const void *rdma_consumer_reject_data(struct rdma_cm_id *id, struct rdma_cm_event *ev,
				      __u8 *data_len);


WEFT_RDMA_END

#endif
