/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_VERBS_H
#define WEFT_RDMA_IB_VERBS_H

/* The kernel's RDMA verbs in user space (docs/guide/kernel-api.md). Calls return 0 or a negative errno, pointers may be
 * ERR_PTR(), and all may be called from any thread unless they say otherwise. */

#include <rdma/verbs/address.h>
#include <rdma/verbs/completion.h>
#include <rdma/verbs/device.h>
#include <rdma/verbs/memory.h>
#include <rdma/verbs/port.h>
#include <rdma/verbs/queue_pair.h>
#include <rdma/verbs/types.h>
#include <rdma/verbs/work_queue.h>
#include <rdma/verbs/work_request.h>

#endif
