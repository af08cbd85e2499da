/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_DEVICE_H
#define WEFT_RDMA_VERBS_DEVICE_H

/* Devices, their clients, and events of devices and ports. */

#include <rdma/verbs/port.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum rdma_driver_id WEFT_RDMA_ENUM {
	RDMA_DRIVER_UNKNOWN,
	RDMA_DRIVER_MLX5,
	RDMA_DRIVER_MLX4,
	RDMA_DRIVER_CXGB3,
	RDMA_DRIVER_CXGB4,
	RDMA_DRIVER_MTHCA,
	RDMA_DRIVER_BNXT_RE,
	RDMA_DRIVER_OCRDMA,
	RDMA_DRIVER_NES,
	RDMA_DRIVER_I40IW,
	RDMA_DRIVER_IRDMA = RDMA_DRIVER_I40IW,
	RDMA_DRIVER_VMW_PVRDMA,
	RDMA_DRIVER_QEDR,
	RDMA_DRIVER_HNS,
	RDMA_DRIVER_USNIC,
	RDMA_DRIVER_RXE,
	RDMA_DRIVER_HFI1,
	RDMA_DRIVER_QIB,
	RDMA_DRIVER_EFA,
	RDMA_DRIVER_SIW
};

/**
 * struct ib_device - An RDMA device
 * @name: e.g. weft0
 * @attrs: what the driver promised when it registered the device
 * @dma_device: for DMA mappings of Linux; null here, where devices reach what the process reaches
 * @local_dma_lkey: key for all local memory where the device has one (IB_DEVICE_LOCAL_DMA_LKEY)
 * @node_guid: of the node, in network order
 * @node_desc: its description
 * @num_comp_vectors: completion vectors
 * @phys_port_cnt: ports
 * @index: number among all devices
 * @node_type: &enum rdma_node_type
 *
 * A client has it between its add and the end of its remove; others hold it by ib_device_get_by_name() and the like.
 */
struct ib_device {
	char name[IB_DEVICE_NAME_MAX];
	struct ib_device_attr attrs;
	struct device *dma_device;
	__u32 local_dma_lkey;
	__be64 node_guid;
	char node_desc[IB_DEVICE_NODE_DESC_MAX];
	int num_comp_vectors;
	__u8 phys_port_cnt;
	__u8 node_type;
	__u32 index;
	__u8 uses_weft : 1;
	void *weft;
};

/**
 * struct ib_client - Something that uses every RDMA device
 * @name: for logs
 * @add: a device is there; a failure means that this client hears no more of it
 * @remove: it goes, or the client does; the last use of it is before this returns
 * @rename: it has another name
 * @get_net_dev_by_params: the net device that a request with these parameters is for, held, or null
 * @no_kverbs_req: told of devices, too, that lack verbs which users in a kernel need
 *
 * For one device @add and @remove never overlap, and @remove comes only after an @add that succeeded.
 */
struct ib_client {
	const char *name;
	int (*add)(struct ib_device *ibdev);
	void (*remove)(struct ib_device *ibdev, void *client_data);
	void (*rename)(struct ib_device *ibdev, void *client_data);
	struct net_device *(*get_net_dev_by_params)(struct ib_device *dev, __u8 port, __u16 pkey,
						    const union ib_gid *gid,
						    const struct sockaddr *addr, void *client_data);
	__u8 no_kverbs_req : 1;
	void *weft;
};

enum ib_event_type WEFT_RDMA_ENUM {
	IB_EVENT_CQ_ERR,
	IB_EVENT_QP_FATAL,
	IB_EVENT_QP_REQ_ERR,
	IB_EVENT_QP_ACCESS_ERR,
	IB_EVENT_COMM_EST,
	IB_EVENT_SQ_DRAINED,
	IB_EVENT_PATH_MIG,
	IB_EVENT_PATH_MIG_ERR,
	IB_EVENT_DEVICE_FATAL,
	IB_EVENT_PORT_ACTIVE,
	IB_EVENT_PORT_ERR,
	IB_EVENT_LID_CHANGE,
	IB_EVENT_PKEY_CHANGE,
	IB_EVENT_SM_CHANGE,
	IB_EVENT_SRQ_ERR,
	IB_EVENT_SRQ_LIMIT_REACHED,
	IB_EVENT_QP_LAST_WQE_REACHED,
	IB_EVENT_CLIENT_REREGISTER,
	IB_EVENT_GID_CHANGE,
	IB_EVENT_WQ_FATAL
};

/** ib_event_msg - An event's name, for logs */
const char *ib_event_msg(enum ib_event_type event);

/**
 * struct ib_event - An asynchronous event (IBTA vol 1 11.6.3)
 * @device: whose it is
 * @element: what it is about, as @event says
 * @event: which
 */
struct ib_event {
	struct ib_device *device;
	union {
		struct ib_cq *cq;
		struct ib_qp *qp;
		struct ib_srq *srq;
		struct ib_wq *wq;
		__u8 port_num;
	} element;
	enum ib_event_type event;
};

/**
 * struct ib_event_handler - Told of the events of a device and its ports
 * @device: which
 * @handler: called from a work queue, one event after the other, once the caches show them; may sleep
 */
struct ib_event_handler {
	struct ib_device *device;
	void (*handler)(struct ib_event_handler *handler, struct ib_event *event);
	void *weft;
};

#define INIT_IB_EVENT_HANDLER(_ptr, _device, _handler) \
	do {                                           \
		(_ptr)->device = (_device);            \
		(_ptr)->handler = (_handler);          \
		(_ptr)->weft = NULL;                   \
	} while (0)

/**
 * ib_register_client - Register a user of all RDMA devices
 * @client: with its callbacks
 *
 * Its add is called for every device that is there, before this returns, and later for each new one.
 */
int ib_register_client(struct ib_client *client);

/**
 * ib_unregister_client - End a registration
 * @client: registered before
 *
 * Its remove is called for every device that is left. A fence: on return nothing of the client runs, or will.
 */
void ib_unregister_client(struct ib_client *client);

/**
 * ib_set_client_data - Keep a pointer for a client and a device
 * @device: device
 * @client: client, between its add for @device and the end of its remove
 * @data: what ib_get_client_data() and remove are to have
 */
void ib_set_client_data(struct ib_device *device, struct ib_client *client, void *data);

/** ib_get_client_data - What ib_set_client_data() has set last; null: nothing */
void *ib_get_client_data(struct ib_device *device, struct ib_client *client);

/** ib_register_event_handler - From now on the handler hears of events of its device */
void ib_register_event_handler(struct ib_event_handler *event_handler);

/** ib_unregister_event_handler - A fence: on return the handler neither runs nor will */
void ib_unregister_event_handler(struct ib_event_handler *event_handler);

/** ib_dispatch_event - For drivers: an event has happened; locks may be held */
void ib_dispatch_event(const struct ib_event *event);

/**
 * ib_device_get_by_name - Find a device by its name, and hold it
 * @name: e.g. weft0
 * @driver_id: whose it is to be; RDMA_DRIVER_UNKNOWN: anybody's
 *
 * Null: there is none, or it is going. ib_device_put() ends the hold, without which it cannot go.
 */
struct ib_device *ib_device_get_by_name(const char *name, enum rdma_driver_id driver_id);

/** ib_device_get_by_netdev - The same by a net device that ib_device_set_netdev() has given */
struct ib_device *ib_device_get_by_netdev(struct net_device *ndev, enum rdma_driver_id driver_id);

/** ib_device_put - Give up a hold of a device */
void ib_device_put(struct ib_device *device);

/**
 * ib_unregister_device - End a device
 * @ib_dev: registered; once only
 *
 * Every client's remove is called, in the reverse order of registration; on return nobody has the device.
 */
void ib_unregister_device(struct ib_device *ib_dev);

/** ib_unregister_device_and_put - The same by whoever holds it, by any number of threads at once */
void ib_unregister_device_and_put(struct ib_device *ib_dev);

/** ib_unregister_device_queued - The same later, on a work queue; locks may be held */
void ib_unregister_device_queued(struct ib_device *ib_dev);

/**
 * ib_unregister_driver - End all devices of a driver
 * @driver_id: whose
 *
 * A fence: on return every unregistration of them has ended, whoever began it. New ones are not prevented.
 */
void ib_unregister_driver(enum rdma_driver_id driver_id);

/**
 * ib_device_set_netdev - Say which net device a port has
 * @ib_dev: device
 * @ndev: its net device; null: none any more
 * @port: one of the device's ports
 *
 * -EINVAL: there is no such port.
 */
int ib_device_set_netdev(struct ib_device *ib_dev, struct net_device *ndev, unsigned int port);

/**
 * ib_get_net_dev_by_params - The net device that a request to connect is for
 * @dev: device that it came by
 * @port: port that it came by
 * @pkey: its P_Key
 * @gid: the GID that it was sent to; may be null
 * @addr: the address that it asked for
 *
 * Asks each client. Null: none knows, or the port is not InfiniBand's. The caller puts it.
 */
struct net_device *ib_get_net_dev_by_params(struct ib_device *dev, __u8 port, __u16 pkey,
					    const union ib_gid *gid, const struct sockaddr *addr);

typedef void (*roce_netdev_callback)(struct ib_device *device, __u8 port,
				     struct net_device *idev, void *cookie);

/** ib_enum_roce_netdev - Call @cb for the net device of each RoCE port of a device */
void ib_enum_roce_netdev(struct ib_device *ib_dev, roce_netdev_callback cb, void *cookie);

/** rdma_dev_access_netns - Whether a device is there for a network namespace */
bool rdma_dev_access_netns(const struct ib_device *device, const struct net *net);

WEFT_RDMA_END

#endif
