/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_CM_H
#define WEFT_RDMA_IB_CM_H

/* Connections by the InfiniBand communication manager (IBTA vol 1 chapter 12), by the interface of 2004. Service IDs of type u64 are numbers
 * of the host, those of type __be64 in network order. */

#include <rdma/ib_mad.h>
#include <rdma/ib_sa.h>

WEFT_RDMA_BEGIN

enum ib_cm_state WEFT_RDMA_ENUM {
	IB_CM_IDLE,
	IB_CM_LISTEN,
	IB_CM_REQ_SENT,
	IB_CM_REQ_RCVD,
	IB_CM_MRA_REQ_SENT,
	IB_CM_MRA_REQ_RCVD,
	IB_CM_REP_SENT,
	IB_CM_REP_RCVD,
	IB_CM_MRA_REP_SENT,
	IB_CM_MRA_REP_RCVD,
	IB_CM_ESTABLISHED,
	IB_CM_LAP_SENT,
	IB_CM_LAP_RCVD,
	IB_CM_MRA_LAP_SENT,
	IB_CM_MRA_LAP_RCVD,
	IB_CM_DREQ_SENT,
	IB_CM_DREQ_RCVD,
	IB_CM_TIMEWAIT,
	IB_CM_SIDR_REQ_SENT,
	IB_CM_SIDR_REQ_RCVD
};

enum ib_cm_event_type WEFT_RDMA_ENUM {
	IB_CM_REQ_TIMEOUT,
	IB_CM_REQ_RECEIVED,
	IB_CM_REP_TIMEOUT,
	IB_CM_REP_RECEIVED,
	IB_CM_RTU_RECEIVED,
	IB_CM_DREQ_TIMEOUT,
	IB_CM_DREQ_RECEIVED,
	IB_CM_DREP_RECEIVED,
	IB_CM_MRA_RECEIVED,
	IB_CM_LAP_TIMEOUT,
	IB_CM_LAP_RECEIVED,
	IB_CM_APR_RECEIVED,
	/* Not of 2004. */
	IB_CM_REJ_RECEIVED,
	IB_CM_USER_ESTABLISHED,
	IB_CM_TIMEWAIT_EXIT,
	IB_CM_SIDR_REQ_TIMEOUT,
	IB_CM_SIDR_REQ_RECEIVED,
	IB_CM_SIDR_REP_RECEIVED
};

/* IBTA vol 1 12.6.7.2. */
enum ib_cm_rej_reason WEFT_RDMA_ENUM {
	IB_CM_REJ_NO_QP = 1,
	IB_CM_REJ_NO_EEC = 2,
	IB_CM_REJ_NO_RESOURCES = 3,
	IB_CM_REJ_TIMEOUT = 4,
	IB_CM_REJ_UNSUPPORTED = 5,
	IB_CM_REJ_INVALID_COMM_ID = 6,
	IB_CM_REJ_INVALID_COMM_INSTANCE = 7,
	IB_CM_REJ_INVALID_SERVICE_ID = 8,
	IB_CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	IB_CM_REJ_STALE_CONN = 10,
	IB_CM_REJ_RDC_NOT_EXIST = 11,
	IB_CM_REJ_INVALID_GID = 12,
	IB_CM_REJ_INVALID_LID = 13,
	IB_CM_REJ_INVALID_SL = 14,
	IB_CM_REJ_INVALID_TRAFFIC_CLASS = 15,
	IB_CM_REJ_INVALID_HOP_LIMIT = 16,
	IB_CM_REJ_INVALID_PACKET_RATE = 17,
	IB_CM_REJ_INVALID_ALT_GID = 18,
	IB_CM_REJ_INVALID_ALT_LID = 19,
	IB_CM_REJ_INVALID_ALT_SL = 20,
	IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS = 21,
	IB_CM_REJ_INVALID_ALT_HOP_LIMIT = 22,
	IB_CM_REJ_INVALID_ALT_PACKET_RATE = 23,
	IB_CM_REJ_PORT_REDIRECT = 24,
	IB_CM_REJ_INVALID_MTU = 26,
	IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES = 27,
	IB_CM_REJ_CONSUMER_DEFINED = 28,
	IB_CM_REJ_INVALID_RNR_RETRY = 29,
	IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID = 30,
	IB_CM_REJ_INVALID_CLASS_VERSION = 31,
	IB_CM_REJ_INVALID_FLOW_LABEL = 32,
	IB_CM_REJ_INVALID_ALT_FLOW_LABEL = 33
};

enum ib_cm_apr_status WEFT_RDMA_ENUM {
	IB_CM_APR_SUCCESS,
	IB_CM_APR_INVALID_COMM_ID,
	IB_CM_APR_UNSUPPORTED,
	IB_CM_APR_REJECT,
	IB_CM_APR_REDIRECT,
	IB_CM_APR_IS_CURRENT,
	IB_CM_APR_INVALID_QPN_EECN,
	IB_CM_APR_INVALID_LID,
	IB_CM_APR_INVALID_GID,
	IB_CM_APR_INVALID_FLOW_LABEL,
	IB_CM_APR_INVALID_TCLASS,
	IB_CM_APR_INVALID_HOP_LIMIT,
	IB_CM_APR_INVALID_PACKET_RATE,
	IB_CM_APR_INVALID_SL
};

enum ib_cm_sidr_status WEFT_RDMA_ENUM {
	IB_SIDR_SUCCESS,
	IB_SIDR_UNSUPPORTED,
	IB_SIDR_REJECT,
	IB_SIDR_NO_QP,
	IB_SIDR_REDIRECT,
	IB_SIDR_UNSUPPORTED_VERSION
};

struct ib_cm_id;

struct ib_cm_req_event_param {
	struct ib_cm_id *listen_id;
	struct ib_device *device;
	__u8 port;
	struct ib_path_record *primary_path;
	struct ib_path_record *alternate_path; /* null: none */
	__u64 service_id;
	__be64 remote_ca_guid;
	__u32 remote_qpn;
	__u32 starting_psn;
	enum ib_qp_type qp_type;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 flow_control;
	__u8 srq;
};

struct ib_cm_rep_event_param {
	__be64 remote_ca_guid;
	__u32 remote_qpn;
	__u32 starting_psn;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 target_ack_delay;
	__u8 failover_accepted;
	__u8 rnr_retry_count;
	__u8 flow_control;
	__u8 srq;
};

struct ib_cm_rej_event_param {
	enum ib_cm_rej_reason reason;
	const void *ari;
	__u8 ari_length;
};

struct ib_cm_sidr_req_event_param {
	struct ib_cm_id *listen_id;
	struct ib_device *device;
	__u8 port;
	__u16 pkey;
	__u64 service_id;
};

struct ib_cm_sidr_rep_event_param {
	enum ib_cm_sidr_status status;
	__u32 qpn;
	__u32 qkey;
	const void *info;
	__u8 info_len;
};

/**
 * struct ib_cm_event - Something that happened to a connection; valid during the handler's call
 * @private_data: the message's whole field, behind the peer's data zeroes
 * @private_data_len: its bytes
 * @event: what
 * @param: of REQ, REP, REJ, MRA, LAP, APR and the two of SIDR
 */
struct ib_cm_event {
	void *private_data;
	__u8 private_data_len;
	enum ib_cm_event_type event;
	union {
		struct ib_cm_req_event_param req_rcvd;
		struct ib_cm_rep_event_param rep_rcvd;
		struct ib_cm_rej_event_param rej_rcvd;
		struct {
			__u8 service_timeout;
		} mra_rcvd;
		struct {
			struct ib_path_record *alternate_path;
		} lap_rcvd;
		struct {
			enum ib_cm_apr_status ap_status;
			const void *apr_info;
			__u8 info_len;
		} apr_rcvd;
		struct ib_cm_sidr_req_event_param sidr_req_rcvd;
		struct ib_cm_sidr_rep_event_param sidr_rep_rcvd;
	} param;
};

/* Called in the order of an identifier's events, without locks. Other than 0: the identifier is destroyed. Of REQ_RECEIVED and
 * SIDR_REQ_RECEIVED the identifier is a new one, whose handler and context are the listener's. */
typedef int (*ib_cm_handler)(struct ib_cm_id *cm_id, struct ib_cm_event *event);

/**
 * struct ib_cm_id - A connection, a listener, or a request for a service's QP
 */
struct ib_cm_id {
	ib_cm_handler cm_handler;
	void *context;
	__u64 service_id;
	enum ib_cm_state state;
	void *weft;
};

/**
 * ib_create_cm_id - A new identifier, idle
 * @cm_handler: its handler
 * @context: for the handler
 *
 * Return: the identifier; -ENODEV: no device has a port with a CM
 */
struct ib_cm_id *ib_create_cm_id(ib_cm_handler cm_handler, void *context);

/**
 * ib_destroy_cm_id - Ends an identifier; the peer is told as its state asks for
 * @cm_id: identifier
 *
 * When this returns its handler neither runs nor will. From inside its own handler: when that has returned.
 */
int ib_destroy_cm_id(struct ib_cm_id *cm_id);

/* All of the following return 0, -EINVAL in a state that does not allow the call or with private data that is too long, -ENODEV without a
 * port, and -ENOMEM at a limit. */

/**
 * ib_cm_listen - Takes requests for a service
 * @cm_id: identifier, which is idle
 * @service_id: service; -EBUSY: it has a listener
 */
int ib_cm_listen(struct ib_cm_id *cm_id, __u64 service_id);

/**
 * ib_cm_insert_listen - A listener that several users share
 * @device: only requests that arrive there
 * @cm_handler: its handler; -EINVAL: the service has a listener with another one
 * @service_id: service
 *
 * Return: the listener, whose context is null; each user destroys it once
 */
struct ib_cm_id *ib_cm_insert_listen(struct ib_device *device, ib_cm_handler cm_handler, __be64 service_id);

/**
 * struct ib_cm_req_param - A connection as it is asked for, and as it is accepted
 * @qp: this side's QP
 * @timeout_ms: unused: the response timeouts say how long the CM waits
 * @starting_psn: that the peer's packets are to start with
 */
struct ib_cm_req_param {
	struct ib_qp *qp;
	struct ib_path_record *primary_path;
	struct ib_path_record *alternate_path;
	__u64 service_id;
	int timeout_ms;
	void *private_data;
	__u8 private_data_len;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 remote_cm_response_timeout;
	__u8 flow_control;
	__u8 local_cm_response_timeout;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 max_cm_retries;
	__u32 starting_psn;
};

int ib_send_cm_req(struct ib_cm_id *cm_id, struct ib_cm_req_param *param);

/* Of @param: QP, starting PSN, private data, resources, flow control and RNR retries. */
int ib_send_cm_rep(struct ib_cm_id *cm_id, struct ib_cm_req_param *param);
int ib_send_cm_rtu(struct ib_cm_id *cm_id, void *private_data, __u8 private_data_len);
int ib_send_cm_dreq(struct ib_cm_id *cm_id, void *private_data, __u8 private_data_len);
int ib_send_cm_drep(struct ib_cm_id *cm_id, void *private_data, __u8 private_data_len);

/**
 * ib_cm_establish - A message came on the QP before the RTU did
 * @id: connection; -EISCONN: the RTU has come
 */
int ib_cm_establish(struct ib_cm_id *id);

int ib_send_cm_rej(struct ib_cm_id *cm_id, enum ib_cm_rej_reason reason, void *ari, __u8 ari_length, void *private_data,
		   __u8 private_data_len);

/**
 * ib_send_cm_mra - Asks the peer to wait for the answer
 * @service_timeout: 4.096 us * 2^service_timeout
 */
int ib_send_cm_mra(struct ib_cm_id *cm_id, __u8 service_timeout, void *private_data, __u8 private_data_len);
int ib_send_cm_lap(struct ib_cm_id *cm_id, struct ib_path_record *alternate_path, void *private_data, __u8 private_data_len);
int ib_send_cm_apr(struct ib_cm_id *cm_id, enum ib_cm_apr_status status, void *info, __u8 info_length, void *private_data,
		   __u8 private_data_len);

/**
 * ib_cm_migrate_path - Lets the connection's QP go over to its alternate path, and tells the CM
 * @cm_id: connection, whose QP was named when it was made
 */
int ib_cm_migrate_path(struct ib_cm_id *cm_id);

/**
 * ib_cm_init_qp_attr - What the connection's QP is to be modified by
 * @cm_id: connection
 * @qp_attr: its qp_state says to which state; is filled. Who receives before it has sent the REP sets rq_psn to that's PSN itself
 * @qp_attr_mask: is set
 */
int ib_cm_init_qp_attr(struct ib_cm_id *cm_id, struct ib_qp_attr *qp_attr, int *qp_attr_mask);

struct ib_cm_sidr_req_param {
	struct ib_path_record *path;
	__u64 service_id;
	int timeout_ms;
	void *private_data;
	__u8 private_data_len;
	__u16 pkey;
};

int ib_send_cm_sidr_req(struct ib_cm_id *cm_id, struct ib_cm_sidr_req_param *param);

struct ib_cm_sidr_rep_param {
	__u32 qp_num;
	__u32 qkey;
	enum ib_cm_sidr_status status;
	void *info;
	__u8 info_length;
	void *private_data;
	__u8 private_data_len;
};

int ib_send_cm_sidr_rep(struct ib_cm_id *cm_id, struct ib_cm_sidr_rep_param *param);

WEFT_RDMA_END

#endif
