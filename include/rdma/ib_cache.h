/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_CACHE_H
#define WEFT_RDMA_IB_CACHE_H

/* What the core remembers of ports, so that look-ups ask no driver. */

#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

/** rdma_get_gid_attr - Hold an entry of a port's GID table; ERR_PTR(): it is empty, or there is none */
const struct ib_gid_attr *rdma_get_gid_attr(struct ib_device *device, __u8 port_num, int index);

/** rdma_find_gid - Find a GID of that type in the tables of all ports; null net device: of any */
const struct ib_gid_attr *rdma_find_gid(struct ib_device *device, const union ib_gid *gid,
					enum ib_gid_type gid_type, struct net_device *ndev);

/** rdma_find_gid_by_port - The same of one port */
const struct ib_gid_attr *rdma_find_gid_by_port(struct ib_device *device, const union ib_gid *gid,
						enum ib_gid_type gid_type, __u8 port,
						struct net_device *ndev);

int ib_get_cached_pkey(struct ib_device *device, __u8 port_num, int index, __u16 *pkey);
int ib_find_cached_pkey(struct ib_device *device, __u8 port_num, __u16 pkey, __u16 *index);
/** ib_find_exact_cached_pkey - By all 16 bits */
int ib_find_exact_cached_pkey(struct ib_device *device, __u8 port_num, __u16 pkey, __u16 *index);
int ib_get_cached_lmc(struct ib_device *device, __u8 port_num, __u8 *lmc);
int ib_get_cached_port_state(struct ib_device *device, __u8 port_num,
			     enum ib_port_state *port_active);

WEFT_RDMA_END

#endif
