/* A block of memory that is served by RDMA: an upper-layer protocol as a kernel has them. docs/ULP.md walks through it. */

#include <linux/inet.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rw.h>

#include "protocol.h"

MODULE_DESCRIPTION("A block of memory by RDMA");
MODULE_LICENSE("Dual BSD/GPL");

static ushort port = 7770;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "RDMA-CM port that it listens on");

static ulong bytes = 16UL << 20;
module_param(bytes, ulong, 0444);
MODULE_PARM_DESC(bytes, "Size of the block");

#define SLOTS (2 * BLOCKD_REQUESTS) /* a client asks again as soon as it has an answer */
#define SEGMENT_BYTES (64U << 10)
#define SEGMENTS (BLOCKD_MOST_BYTES / SEGMENT_BYTES)

struct session;

/* A request, from its receive to the completion of its answer. */
struct slot {
	struct session *session;
	struct ib_cqe received;
	struct ib_cqe answered;
	struct blockd_request request;
	struct blockd_answer answer;
	struct rdma_rw_ctx transfer;
	struct scatterlist sgl[SEGMENTS];
	unsigned int segments; /* 0: nothing is transferred */
	enum dma_data_direction direction;
};

/* A connection. */
struct session {
	struct list_head list;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct work_struct end;
	unsigned long is_ending;
	struct slot slots[SLOTS];
};

static char *disk;
static u64 blocks;
static struct rdma_cm_id *listener;
static struct workqueue_struct *enders;
static struct proc_dir_entry *proc_entry;
static atomic64_t requests = ATOMIC64_INIT(0);
static LIST_HEAD(sessions);
static DEFINE_MUTEX(sessions_lock);

/* Once: the work takes the connection apart, which no handler of its own can do. */
static void end_session(struct session *session)
{
	if (!test_and_set_bit(0, &session->is_ending))
		queue_work(enders, &session->end);
}

static void free_session(struct session *session)
{
	if (session->id->qp) {
		ib_drain_qp(session->id->qp);
		rdma_destroy_qp(session->id);
	}
	if (!IS_ERR_OR_NULL(session->cq))
		ib_free_cq(session->cq);
	if (!IS_ERR_OR_NULL(session->pd))
		ib_dealloc_pd(session->pd);
	kvfree(session);
}

static void session_end_work(struct work_struct *work)
{
	struct session *session = container_of(work, struct session, end);
	struct rdma_cm_id *id = session->id;

	mutex_lock(&sessions_lock);
	list_del(&session->list);
	mutex_unlock(&sessions_lock);
	rdma_disconnect(id);
	free_session(session);
	rdma_destroy_id(id);
}

static int post_receive(struct slot *slot)
{
	struct session *session = slot->session;
	struct ib_sge sge = {
		.addr = ib_dma_map_single(session->id->device, &slot->request, sizeof(slot->request), DMA_FROM_DEVICE),
		.length = sizeof(slot->request),
		.lkey = session->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &slot->received, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(session->id->qp, &wr, NULL);
}

static u8 check_request(const struct blockd_request *request)
{
	u64 first = be64_to_cpu(request->first_block);
	u32 count = be32_to_cpu(request->blocks);

	if (request->operation != BLOCKD_READ && request->operation != BLOCKD_WRITE)
		return BLOCKD_UNKNOWN_OPERATION;
	if (count == 0 || count > BLOCKD_MOST_BYTES / BLOCKD_BLOCK_BYTES || first >= blocks || count > blocks - first)
		return BLOCKD_OUT_OF_RANGE;
	return BLOCKD_DONE;
}

/* The part of the disk that a sound request is about, as a list. */
static void fill_list(struct slot *slot)
{
	const struct blockd_request *request = &slot->request;
	char *at = disk + be64_to_cpu(request->first_block) * BLOCKD_BLOCK_BYTES;
	u32 left = be32_to_cpu(request->blocks) * BLOCKD_BLOCK_BYTES;
	unsigned int i;

	slot->segments = DIV_ROUND_UP(left, SEGMENT_BYTES);
	sg_init_table(slot->sgl, slot->segments);
	for (i = 0; i < slot->segments; i++) {
		u32 length = min(left, SEGMENT_BYTES);

		sg_set_buf(&slot->sgl[i], at, length);
		at += length;
		left -= length;
	}
	slot->direction = request->operation == BLOCKD_READ ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

static void end_transfer(struct slot *slot)
{
	struct rdma_cm_id *id = slot->session->id;

	if (slot->segments)
		rdma_rw_ctx_destroy(&slot->transfer, id->qp, id->port_num, slot->sgl, slot->segments, slot->direction);
	slot->segments = 0;
}

/* RDMA, if the request is sound, with the answer behind it: what an RDMA WRITE moves is at the client before
 * a SEND behind it is, and a SEND with a fence waits for an RDMA READ. */
static int serve(struct slot *slot)
{
	struct session *session = slot->session;
	struct rdma_cm_id *id = session->id;
	struct blockd_request *request = &slot->request;
	struct ib_sge sge = { .length = sizeof(slot->answer), .lkey = session->pd->local_dma_lkey };
	struct ib_send_wr send = {
		.wr_cqe = &slot->answered,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_FENCE,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret;

	atomic64_inc(&requests);
	slot->answer = (struct blockd_answer){ .status = check_request(request), .tag = request->tag };
	sge.addr = ib_dma_map_single(id->device, &slot->answer, sizeof(slot->answer), DMA_TO_DEVICE);
	if (slot->answer.status != BLOCKD_DONE)
		return ib_post_send(id->qp, &send, NULL);
	fill_list(slot);
	ret = rdma_rw_ctx_init(&slot->transfer, id->qp, id->port_num, slot->sgl, slot->segments, 0,
			       be64_to_cpu(request->address), be32_to_cpu(request->rkey), slot->direction);
	if (ret < 0) {
		slot->segments = 0;
		return ret;
	}
	ret = rdma_rw_ctx_post(&slot->transfer, id->qp, id->port_num, NULL, &send);
	if (ret)
		end_transfer(slot);
	return ret;
}

static void request_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct slot *slot = container_of(wc->wr_cqe, struct slot, received);

	if (wc->status != IB_WC_SUCCESS)
		return; /* flushed: the connection has ended */
	if (wc->byte_len != sizeof(slot->request) || serve(slot))
		end_session(slot->session);
}

static void answer_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct slot *slot = container_of(wc->wr_cqe, struct slot, answered);

	end_transfer(slot);
	if (wc->status != IB_WC_SUCCESS || post_receive(slot))
		end_session(slot->session);
}

static int make_qp(struct session *session)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = SLOTS + 1, /* the answers, and one for the drain */
			.max_recv_wr = SLOTS + 1,
			.max_rdma_ctxs = SLOTS,
			.max_recv_sge = 1,
		},
	};
	struct ib_device *device = session->id->device;

	session->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(session->pd))
		return PTR_ERR(session->pd);
	/* A receive and an answer each, and as many for a transfer as it has requests at most. */
	session->cq = ib_alloc_cq_any(device, session, 5 * SLOTS + 2, IB_POLL_WORKQUEUE);
	if (IS_ERR(session->cq))
		return PTR_ERR(session->cq);
	attr.cap.max_send_sge = min_t(u32, SEGMENTS, device->attrs.max_send_sge);
	attr.send_cq = session->cq;
	attr.recv_cq = session->cq;
	return rdma_create_qp(session->id, session->pd, &attr);
}

static int accept_session(struct session *session)
{
	struct blockd_export offer = {
		.magic = cpu_to_be32(BLOCKD_MAGIC),
		.block_bytes = cpu_to_be32(BLOCKD_BLOCK_BYTES),
		.blocks = cpu_to_be64(blocks),
	};
	struct rdma_conn_param param = {
		.private_data = &offer,
		.private_data_len = sizeof(offer),
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7,
	};
	int i, ret = make_qp(session);

	for (i = 0; !ret && i < SLOTS; i++)
		ret = post_receive(&session->slots[i]);
	return ret ? ret : rdma_accept(session->id, &param);
}

/* Other than 0: the new id is destroyed. */
static int take_request(struct rdma_cm_id *id)
{
	struct session *session = kvzalloc(sizeof(*session), GFP_KERNEL);
	int i, ret = -ENOMEM;

	if (!session)
		goto reject;
	session->id = id;
	INIT_WORK(&session->end, session_end_work);
	for (i = 0; i < SLOTS; i++) {
		session->slots[i].session = session;
		session->slots[i].received.done = request_received;
		session->slots[i].answered.done = answer_sent;
	}
	id->context = session;
	mutex_lock(&sessions_lock);
	list_add(&session->list, &sessions);
	mutex_unlock(&sessions_lock);
	ret = accept_session(session);
	if (!ret || test_and_set_bit(0, &session->is_ending))
		return 0; /* also where it ends already: the work has it then */
	mutex_lock(&sessions_lock);
	list_del(&session->list);
	mutex_unlock(&sessions_lock);
	free_session(session);
reject:
	pr_warn("blockd: a connection is refused: %pe\n", ERR_PTR(ret));
	rdma_reject(id, "no resources", 12, 28);
	return ret;
}

static int cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(id);
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	default:
		pr_debug("blockd: %s\n", rdma_event_msg(event->event));
		if (id->context)
			end_session(id->context);
		return 0;
	}
}

/* All of a device, or of all devices. */
static void end_sessions(struct ib_device *device)
{
	struct session *session;

	mutex_lock(&sessions_lock);
	list_for_each_entry(session, &sessions, list)
		if (!device || session->id->device == device)
			end_session(session);
	mutex_unlock(&sessions_lock);
	flush_workqueue(enders);
}

static int add_device(struct ib_device *device)
{
	pr_info("blockd: %s is there\n", device->name);
	return 0;
}

static void remove_device(struct ib_device *device, void *data)
{
	end_sessions(device);
	pr_info("blockd: %s goes\n", device->name);
}

static struct ib_client client = { .name = "blockd", .add = add_device, .remove = remove_device };

static int start_listening(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int ret;

	listener = rdma_create_id(&init_net, cm_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	ret = rdma_bind_addr(listener, (struct sockaddr *)&address);
	if (!ret)
		ret = rdma_listen(listener, 16);
	if (ret)
		rdma_destroy_id(listener);
	return ret;
}

static int show(struct seq_file *seq, void *at)
{
	struct session *session;
	int count = 0;

	mutex_lock(&sessions_lock);
	list_for_each_entry(session, &sessions, list)
		count++;
	mutex_unlock(&sessions_lock);
	seq_printf(seq, "%lu bytes, %d sessions, %lld requests\n", bytes, count, (long long)atomic64_read(&requests));
	return 0;
}

static int __init blockd_init(void)
{
	int ret = -ENOMEM;

	blocks = bytes / BLOCKD_BLOCK_BYTES;
	if (!blocks)
		return -EINVAL;
	disk = vzalloc(blocks * BLOCKD_BLOCK_BYTES);
	if (!disk)
		return -ENOMEM;
	enders = alloc_workqueue("blockd", WQ_UNBOUND, 0);
	if (!enders)
		goto free_disk;
	ret = ib_register_client(&client);
	if (ret)
		goto free_queue;
	ret = start_listening();
	if (ret)
		goto unregister;
	proc_entry = proc_create_single("blockd", 0444, NULL, show);
	pr_info("blockd: serving %lu bytes on port %u\n", bytes, port);
	return 0;
unregister:
	ib_unregister_client(&client);
free_queue:
	destroy_workqueue(enders);
free_disk:
	vfree(disk);
	return ret;
}

static void __exit blockd_exit(void)
{
	proc_remove(proc_entry);
	rdma_destroy_id(listener); /* nobody new comes any more */
	end_sessions(NULL);
	ib_unregister_client(&client);
	destroy_workqueue(enders);
	vfree(disk);
	pr_info("blockd: served %lld requests\n", (long long)atomic64_read(&requests));
}

module_init(blockd_init);
module_exit(blockd_exit);
