// Symbols that rdma-core's hardware drivers need from libibverbs (version node IBVERBS_PRIVATE_34).
// Some programs link libmlx5 and libefa, which must load and then find that no device here is
// theirs: driver registrations are accepted and ignored, and every kernel command is refused.

#include <cerrno>
#include <cstdarg>

#include "compat/ibverbs/objects.h"

namespace {

int refuse_command() {
  return weft::compat::refuse(EOPNOTSUPP, "there is no kernel driver behind this device");
}

void* refuse_object() {
  refuse_command();
  return nullptr;
}

}  // namespace

// The real functions have various signatures; their arguments are ignored.
#define WEFT_REFUSED_COMMAND(name) \
  extern "C" WEFT_EXPORT int name() { return refuse_command(); }
#define WEFT_REFUSED_OBJECT(name) \
  extern "C" WEFT_EXPORT void* name() { return refuse_object(); }

WEFT_REFUSED_COMMAND(__ioctl_final_num_attrs)
WEFT_REFUSED_OBJECT(_verbs_init_and_alloc_context)
WEFT_REFUSED_COMMAND(execute_ioctl)
WEFT_REFUSED_COMMAND(ibv_cmd_advise_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_alloc_dm)
WEFT_REFUSED_COMMAND(ibv_cmd_alloc_mw)
WEFT_REFUSED_COMMAND(ibv_cmd_alloc_pd)
WEFT_REFUSED_COMMAND(ibv_cmd_attach_mcast)
WEFT_REFUSED_COMMAND(ibv_cmd_close_xrcd)
WEFT_REFUSED_COMMAND(ibv_cmd_create_ah)
WEFT_REFUSED_COMMAND(ibv_cmd_create_counters)
WEFT_REFUSED_COMMAND(ibv_cmd_create_cq)
WEFT_REFUSED_COMMAND(ibv_cmd_create_cq_ex)
WEFT_REFUSED_COMMAND(ibv_cmd_create_cq_ex2)
WEFT_REFUSED_COMMAND(ibv_cmd_create_flow)
WEFT_REFUSED_COMMAND(ibv_cmd_create_flow_action_esp)
WEFT_REFUSED_COMMAND(ibv_cmd_create_qp)
WEFT_REFUSED_COMMAND(ibv_cmd_create_qp_ex)
WEFT_REFUSED_COMMAND(ibv_cmd_create_qp_ex2)
WEFT_REFUSED_COMMAND(ibv_cmd_create_rwq_ind_table)
WEFT_REFUSED_COMMAND(ibv_cmd_create_srq)
WEFT_REFUSED_COMMAND(ibv_cmd_create_srq_ex)
WEFT_REFUSED_COMMAND(ibv_cmd_create_wq)
WEFT_REFUSED_COMMAND(ibv_cmd_dealloc_mw)
WEFT_REFUSED_COMMAND(ibv_cmd_dealloc_pd)
WEFT_REFUSED_COMMAND(ibv_cmd_dereg_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_ah)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_counters)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_cq)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_flow)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_flow_action)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_qp)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_rwq_ind_table)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_srq)
WEFT_REFUSED_COMMAND(ibv_cmd_destroy_wq)
WEFT_REFUSED_COMMAND(ibv_cmd_detach_mcast)
WEFT_REFUSED_COMMAND(ibv_cmd_free_dm)
WEFT_REFUSED_COMMAND(ibv_cmd_get_context)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_cq)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_flow_action_esp)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_qp)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_qp_ex)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_srq)
WEFT_REFUSED_COMMAND(ibv_cmd_modify_wq)
WEFT_REFUSED_COMMAND(ibv_cmd_open_qp)
WEFT_REFUSED_COMMAND(ibv_cmd_open_xrcd)
WEFT_REFUSED_COMMAND(ibv_cmd_poll_cq)
WEFT_REFUSED_COMMAND(ibv_cmd_post_recv)
WEFT_REFUSED_COMMAND(ibv_cmd_post_send)
WEFT_REFUSED_COMMAND(ibv_cmd_post_srq_recv)
WEFT_REFUSED_COMMAND(ibv_cmd_query_context)
WEFT_REFUSED_COMMAND(ibv_cmd_query_device_any)
WEFT_REFUSED_COMMAND(ibv_cmd_query_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_query_port)
WEFT_REFUSED_COMMAND(ibv_cmd_query_qp)
WEFT_REFUSED_COMMAND(ibv_cmd_query_srq)
WEFT_REFUSED_COMMAND(ibv_cmd_read_counters)
WEFT_REFUSED_COMMAND(ibv_cmd_reg_dm_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_reg_dmabuf_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_reg_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_req_notify_cq)
WEFT_REFUSED_COMMAND(ibv_cmd_rereg_mr)
WEFT_REFUSED_COMMAND(ibv_cmd_resize_cq)
WEFT_REFUSED_COMMAND(verbs_allow_disassociate_destroy)
WEFT_REFUSED_OBJECT(verbs_open_device)

extern "C" {

WEFT_EXPORT void verbs_register_driver_34(const void*) {}
WEFT_EXPORT void ibv_register_driver(const char*, void*) {}
WEFT_EXPORT void verbs_set_ops(void*, const void*) {}
WEFT_EXPORT void verbs_uninit_context(void*) {}
WEFT_EXPORT void __verbs_log(void*, std::uint32_t, const char*, ...) {}

WEFT_EXPORT int ibv_read_ibdev_sysfs_file(char*, std::size_t, void*, const char*, ...) {
  errno = EOPNOTSUPP;
  return -1;
}

WEFT_EXPORT void verbs_init_cq(ibv_cq* cq, ibv_context* context, ibv_comp_channel* channel,
                               void* cq_context) {
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->comp_events_completed = 0;
  cq->async_events_completed = 0;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
}

}  // extern "C"
