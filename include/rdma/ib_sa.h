/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_SA_H
#define WEFT_RDMA_IB_SA_H

/* Subnet administration: path, service and multicast records. */

#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

enum {
	IB_SA_METHOD_GET_TABLE = 0x12,
	IB_SA_METHOD_GET_TABLE_RESP = 0x92,
	IB_SA_METHOD_DELETE = 0x15,
	IB_SA_METHOD_DELETE_RESP = 0x95
};

typedef __u64 ib_sa_comp_mask;
#define IB_SA_COMP_MASK(n) ((ib_sa_comp_mask)1 << (n))

/* Which fields of a path record an asker has set (IBTA vol 1 Table 208). */
#define IB_SA_PATH_REC_SERVICE_ID (IB_SA_COMP_MASK(0) | IB_SA_COMP_MASK(1))
#define IB_SA_PATH_REC_DGID IB_SA_COMP_MASK(2)
#define IB_SA_PATH_REC_SGID IB_SA_COMP_MASK(3)
#define IB_SA_PATH_REC_DLID IB_SA_COMP_MASK(4)
#define IB_SA_PATH_REC_SLID IB_SA_COMP_MASK(5)
#define IB_SA_PATH_REC_RAW_TRAFFIC IB_SA_COMP_MASK(6)
#define IB_SA_PATH_REC_FLOW_LABEL IB_SA_COMP_MASK(8)
#define IB_SA_PATH_REC_HOP_LIMIT IB_SA_COMP_MASK(9)
#define IB_SA_PATH_REC_TRAFFIC_CLASS IB_SA_COMP_MASK(10)
#define IB_SA_PATH_REC_REVERSIBLE IB_SA_COMP_MASK(11)
#define IB_SA_PATH_REC_NUMB_PATH IB_SA_COMP_MASK(12)
#define IB_SA_PATH_REC_PKEY IB_SA_COMP_MASK(13)
#define IB_SA_PATH_REC_QOS_CLASS IB_SA_COMP_MASK(14)
#define IB_SA_PATH_REC_SL IB_SA_COMP_MASK(15)
#define IB_SA_PATH_REC_MTU_SELECTOR IB_SA_COMP_MASK(16)
#define IB_SA_PATH_REC_MTU IB_SA_COMP_MASK(17)
#define IB_SA_PATH_REC_RATE_SELECTOR IB_SA_COMP_MASK(18)
#define IB_SA_PATH_REC_RATE IB_SA_COMP_MASK(19)
#define IB_SA_PATH_REC_PACKET_LIFE_TIME_SELECTOR IB_SA_COMP_MASK(20)
#define IB_SA_PATH_REC_PACKET_LIFE_TIME IB_SA_COMP_MASK(21)
#define IB_SA_PATH_REC_PREFERENCE IB_SA_COMP_MASK(22)

enum sa_path_rec_type WEFT_RDMA_ENUM {
	SA_PATH_REC_TYPE_IB,
	SA_PATH_REC_TYPE_ROCE_V1,
	SA_PATH_REC_TYPE_ROCE_V2,
	SA_PATH_REC_TYPE_OPA
};

struct sa_path_rec_ib {
	__be16 dlid;
	__be16 slid;
	__u8 raw_traffic;
};

struct sa_path_rec_roce {
	bool route_resolved;
	__u8 dmac[6];
};

/**
 * struct sa_path_rec - A path (IBTA vol 1 15.2.5.16)
 */
struct sa_path_rec {
	union ib_gid dgid;
	union ib_gid sgid;
	__be64 service_id;
	__be32 flow_label;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 reversible;
	__u8 numb_path;
	__be16 pkey;
	__be16 qos_class;
	__u8 sl;
	__u8 mtu_selector;
	__u8 mtu;
	__u8 rate_selector;
	__u8 rate;
	__u8 packet_life_time_selector;
	__u8 packet_life_time;
	__u8 preference;
	union {
		struct sa_path_rec_ib ib;
		struct sa_path_rec_roce roce;
	};
	enum sa_path_rec_type rec_type;
	__u32 flags;
};

/* The name that the 2004 interface of connections has for it. */
#define ib_path_record sa_path_rec

/* Which fields of a service record an asker has set (IBTA vol 1 Table 205). */
#define IB_SA_SERVICE_REC_SERVICE_ID IB_SA_COMP_MASK(0)
#define IB_SA_SERVICE_REC_SERVICE_GID IB_SA_COMP_MASK(1)
#define IB_SA_SERVICE_REC_SERVICE_PKEY IB_SA_COMP_MASK(2)
#define IB_SA_SERVICE_REC_SERVICE_LEASE IB_SA_COMP_MASK(4)
#define IB_SA_SERVICE_REC_SERVICE_KEY IB_SA_COMP_MASK(5)
#define IB_SA_SERVICE_REC_SERVICE_NAME IB_SA_COMP_MASK(6)

/**
 * struct ib_sa_service_rec - A service (IBTA vol 1 15.2.5.14)
 *
 * All numbers, those of the data too, are in network order.
 */
struct ib_sa_service_rec {
	__u64 id;
	union ib_gid gid;
	__be16 pkey;
	__u32 lease;
	__u8 key[16];
	__u8 name[64];
	__u8 data8[16];
	__u16 data16[8];
	__u32 data32[4];
	__u64 data64[2];
};

/**
 * ib_init_ah_attr_from_path - Attributes of an address handle for a path
 * @device: device
 * @port_num: its port
 * @rec: path
 * @ah_attr: to be filled; rdma_destroy_ah_attr() gives up the source GID that it holds then
 * @sgid_attr: source GID; null: the one that @rec names
 */
int ib_init_ah_attr_from_path(struct ib_device *device, __u8 port_num, struct sa_path_rec *rec,
			      struct rdma_ah_attr *ah_attr, const struct ib_gid_attr *sgid_attr);

/**
 * struct ib_sa_client - Somebody who asks subnet administration
 */
struct ib_sa_client {
	void *weft;
};

/* A query that is under way. */
struct ib_sa_query;

/**
 * ib_sa_register_client - Before the first query of a client
 * @client: client
 */
void ib_sa_register_client(struct ib_sa_client *client);

/**
 * ib_sa_unregister_client - After the last one
 * @client: client; when this returns all of its callbacks have returned
 */
void ib_sa_unregister_client(struct ib_sa_client *client);

/**
 * ib_sa_cancel_query - Ends a query early
 * @id: its number
 * @query: the query; nothing happens if it is another than @id's, or over
 *
 * The callback is called with -EINTR.
 */
void ib_sa_cancel_query(int id, struct ib_sa_query *query);

/**
 * ib_sa_path_rec_get - Asks for a path
 * @client: who asks
 * @device: device
 * @port_num: its port
 * @rec: what is known of the path
 * @comp_mask: IB_SA_PATH_REC_ bits of the fields of @rec that count
 * @timeout_ms: how long it may take
 * @gfp_mask: unused
 * @callback: called once, unless the call fails: with 0 and the path, which is valid meanwhile; with -EINTR if the query was
 *	cancelled, -ETIMEDOUT, -EIO if it could not be sent, -EINVAL if it was refused, -ENETUNREACH if there is no such path
 * @context: the callback's
 * @sa_query: is set to the query
 *
 * Return: the query's number, for ib_sa_cancel_query(); -ENODEV: the port has no SA client; -EAGAIN: no subnet manager is known
 */
int ib_sa_path_rec_get(struct ib_sa_client *client, struct ib_device *device, __u8 port_num, struct sa_path_rec *rec,
		       ib_sa_comp_mask comp_mask, unsigned long timeout_ms, gfp_t gfp_mask,
		       void (*callback)(int status, struct sa_path_rec *resp, void *context), void *context,
		       struct ib_sa_query **sa_query);

/**
 * ib_sa_service_rec_query - Registers, unregisters or looks for a service
 * @method: IB_MGMT_METHOD_GET, IB_MGMT_METHOD_SET or IB_SA_METHOD_DELETE
 * @rec: the service
 * @comp_mask: IB_SA_SERVICE_REC_ bits of the fields of @rec that count
 *
 * The rest as of ib_sa_path_rec_get(); -EINVAL: another method.
 */
int ib_sa_service_rec_query(struct ib_sa_client *client, struct ib_device *device, __u8 port_num, __u8 method,
			    struct ib_sa_service_rec *rec, ib_sa_comp_mask comp_mask, unsigned long timeout_ms, gfp_t gfp_mask,
			    void (*callback)(int status, struct ib_sa_service_rec *resp, void *context), void *context,
			    struct ib_sa_query **sa_query);

WEFT_RDMA_END

#endif
