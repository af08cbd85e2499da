// Symbols that hardware drivers and tools of newer distributions need from libibverbs: those of
// private_34.cc, under the version node of their release, and those that later releases have added.
// rdma-core names the node after its driver interface: 34 (releases 36 to 56), 57 (57 and 58), 59
// (59 to 63), 64 and 65. Each later node has all the names here.
//
// To the linker each version of a name is a separate symbol, here an alias of one of the functions
// below. Aliases must be in the file of their function, and symbol versions are assigned by an
// assembler directive, so this file is compiled without LTO (CMakeLists.txt).

#include <cerrno>
#include <cstdint>

#include "compat/ibverbs/objects.h"

extern "C" {

int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type);
void verbs_init_cq(ibv_cq* cq, ibv_context* context, ibv_comp_channel* channel, void* cq_context);
const char* ibv_wr_opcode_str(unsigned opcode);

int weft_private_command() {
  return weft::compat::refuse(EOPNOTSUPP, "there is no kernel driver behind this device");
}
void* weft_private_object() {
  weft_private_command();
  return nullptr;
}
void weft_private_nothing() {}
int weft_private_file() {
  errno = EOPNOTSUPP;
  return -1;
}
int weft_private_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type) {
  return ibv_query_gid_type(context, port, index, type);
}
void weft_private_init_cq(ibv_cq* cq, ibv_context* context, ibv_comp_channel* channel,
                          void* cq_context) {
  verbs_init_cq(cq, context, channel, cq_context);
}
const char* weft_private_opcode(unsigned opcode) { return ibv_wr_opcode_str(opcode); }

}  // extern "C"

// `declaration` declares the alias, which is called name_in_version.
#define WEFT_VERSIONED(name, version, function, declaration)           \
  extern "C" WEFT_EXPORT declaration __attribute__((alias(function))); \
  __asm__(".symver " #name "_in_" #version "," #name "@IBVERBS_PRIVATE_" #version);
#define WEFT_COMMAND(name, version) \
  WEFT_VERSIONED(name, version, "weft_private_command", int name##_in_##version())
#define WEFT_OBJECT(name, version) \
  WEFT_VERSIONED(name, version, "weft_private_object", void* name##_in_##version())
#define WEFT_NOTHING(name, version) \
  WEFT_VERSIONED(name, version, "weft_private_nothing", void name##_in_##version())

#define WEFT_NODE(version)                                                                  \
  WEFT_COMMAND(__ioctl_final_num_attrs, version)                                            \
  WEFT_OBJECT(_verbs_init_and_alloc_context, version)                                       \
  WEFT_COMMAND(execute_ioctl, version)                                                      \
  WEFT_COMMAND(ibv_cmd_advise_mr, version)                                                  \
  WEFT_COMMAND(ibv_cmd_alloc_dm, version)                                                   \
  WEFT_COMMAND(ibv_cmd_alloc_dmah, version)                                                 \
  WEFT_COMMAND(ibv_cmd_alloc_mw, version)                                                   \
  WEFT_COMMAND(ibv_cmd_alloc_pd, version)                                                   \
  WEFT_COMMAND(ibv_cmd_attach_mcast, version)                                               \
  WEFT_COMMAND(ibv_cmd_close_xrcd, version)                                                 \
  WEFT_COMMAND(ibv_cmd_create_ah, version)                                                  \
  WEFT_COMMAND(ibv_cmd_create_comp_cntr, version)                                           \
  WEFT_COMMAND(ibv_cmd_create_counters, version)                                            \
  WEFT_COMMAND(ibv_cmd_create_cq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_create_cq_ex, version)                                               \
  WEFT_COMMAND(ibv_cmd_create_cq_ex2, version)                                              \
  WEFT_COMMAND(ibv_cmd_create_flow, version)                                                \
  WEFT_COMMAND(ibv_cmd_create_flow_action_esp, version)                                     \
  WEFT_COMMAND(ibv_cmd_create_qp, version)                                                  \
  WEFT_COMMAND(ibv_cmd_create_qp_ex, version)                                               \
  WEFT_COMMAND(ibv_cmd_create_qp_ex2, version)                                              \
  WEFT_COMMAND(ibv_cmd_create_rwq_ind_table, version)                                       \
  WEFT_COMMAND(ibv_cmd_create_srq, version)                                                 \
  WEFT_COMMAND(ibv_cmd_create_srq_ex, version)                                              \
  WEFT_COMMAND(ibv_cmd_create_wq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_dealloc_mw, version)                                                 \
  WEFT_COMMAND(ibv_cmd_dealloc_pd, version)                                                 \
  WEFT_COMMAND(ibv_cmd_dereg_mr, version)                                                   \
  WEFT_COMMAND(ibv_cmd_destroy_ah, version)                                                 \
  WEFT_COMMAND(ibv_cmd_destroy_comp_cntr, version)                                          \
  WEFT_COMMAND(ibv_cmd_destroy_counters, version)                                           \
  WEFT_COMMAND(ibv_cmd_destroy_cq, version)                                                 \
  WEFT_COMMAND(ibv_cmd_destroy_flow, version)                                               \
  WEFT_COMMAND(ibv_cmd_destroy_flow_action, version)                                        \
  WEFT_COMMAND(ibv_cmd_destroy_qp, version)                                                 \
  WEFT_COMMAND(ibv_cmd_destroy_rwq_ind_table, version)                                      \
  WEFT_COMMAND(ibv_cmd_destroy_srq, version)                                                \
  WEFT_COMMAND(ibv_cmd_destroy_wq, version)                                                 \
  WEFT_COMMAND(ibv_cmd_detach_mcast, version)                                               \
  WEFT_COMMAND(ibv_cmd_export_dmabuf_fd, version)                                           \
  WEFT_COMMAND(ibv_cmd_free_dm, version)                                                    \
  WEFT_COMMAND(ibv_cmd_free_dmah, version)                                                  \
  WEFT_COMMAND(ibv_cmd_get_context, version)                                                \
  WEFT_COMMAND(ibv_cmd_inc_comp_cntr, version)                                              \
  WEFT_COMMAND(ibv_cmd_inc_err_comp_cntr, version)                                          \
  WEFT_COMMAND(ibv_cmd_modify_cq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_modify_flow_action_esp, version)                                     \
  WEFT_COMMAND(ibv_cmd_modify_qp, version)                                                  \
  WEFT_COMMAND(ibv_cmd_modify_qp_ex, version)                                               \
  WEFT_COMMAND(ibv_cmd_modify_srq, version)                                                 \
  WEFT_COMMAND(ibv_cmd_modify_wq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_open_qp, version)                                                    \
  WEFT_COMMAND(ibv_cmd_open_xrcd, version)                                                  \
  WEFT_COMMAND(ibv_cmd_poll_cq, version)                                                    \
  WEFT_COMMAND(ibv_cmd_post_recv, version)                                                  \
  WEFT_COMMAND(ibv_cmd_post_send, version)                                                  \
  WEFT_COMMAND(ibv_cmd_post_srq_recv, version)                                              \
  WEFT_COMMAND(ibv_cmd_qp_attach_comp_cntr, version)                                        \
  WEFT_COMMAND(ibv_cmd_query_comp_cntr_caps, version)                                       \
  WEFT_COMMAND(ibv_cmd_query_context, version)                                              \
  WEFT_COMMAND(ibv_cmd_query_device_any, version)                                           \
  WEFT_COMMAND(ibv_cmd_query_mr, version)                                                   \
  WEFT_COMMAND(ibv_cmd_query_port, version)                                                 \
  WEFT_COMMAND(ibv_cmd_query_port_speed, version)                                           \
  WEFT_COMMAND(ibv_cmd_query_qp, version)                                                   \
  WEFT_COMMAND(ibv_cmd_query_srq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_read_comp_cntr, version)                                             \
  WEFT_COMMAND(ibv_cmd_read_counters, version)                                              \
  WEFT_COMMAND(ibv_cmd_read_err_comp_cntr, version)                                         \
  WEFT_COMMAND(ibv_cmd_reg_dm_mr, version)                                                  \
  WEFT_COMMAND(ibv_cmd_reg_dmabuf_mr, version)                                              \
  WEFT_COMMAND(ibv_cmd_reg_mr, version)                                                     \
  WEFT_COMMAND(ibv_cmd_reg_mr_ex, version)                                                  \
  WEFT_COMMAND(ibv_cmd_req_notify_cq, version)                                              \
  WEFT_COMMAND(ibv_cmd_rereg_mr, version)                                                   \
  WEFT_COMMAND(ibv_cmd_resize_cq, version)                                                  \
  WEFT_COMMAND(ibv_cmd_set_comp_cntr, version)                                              \
  WEFT_COMMAND(ibv_cmd_set_err_comp_cntr, version)                                          \
  WEFT_OBJECT(ibv_dmabuf_heap_alloc, version)                                               \
  WEFT_COMMAND(ibv_dmabuf_heap_cc_shared_init, version)                                     \
  WEFT_COMMAND(ibv_dmabuf_heap_destroy, version)                                            \
  WEFT_COMMAND(ibv_dmabuf_heap_free, version)                                               \
  WEFT_COMMAND(verbs_allow_disassociate_destroy, version)                                   \
  WEFT_OBJECT(verbs_open_device, version)                                                   \
  WEFT_NOTHING(__verbs_log, version)                                                        \
  WEFT_NOTHING(verbs_set_ops, version)                                                      \
  WEFT_NOTHING(verbs_uninit_context, version)                                               \
  WEFT_VERSIONED(ibv_read_ibdev_sysfs_file, version, "weft_private_file",                   \
                 int ibv_read_ibdev_sysfs_file_in_##version())                              \
  WEFT_VERSIONED(                                                                           \
      ibv_query_gid_type, version, "weft_private_gid_type",                                 \
      int ibv_query_gid_type_in_##version(ibv_context*, std::uint8_t, unsigned, unsigned*)) \
  WEFT_VERSIONED(ibv_wr_opcode_str, version, "weft_private_opcode",                         \
                 const char* ibv_wr_opcode_str_in_##version(unsigned))                      \
  WEFT_VERSIONED(verbs_init_cq, version, "weft_private_init_cq",                            \
                 void verbs_init_cq_in_##version(ibv_cq*, ibv_context*, ibv_comp_channel*, void*))

WEFT_NODE(57)
WEFT_NODE(59)
WEFT_NODE(64)
WEFT_NODE(65)
WEFT_NOTHING(verbs_register_driver_57, 57)
WEFT_NOTHING(verbs_register_driver_59, 59)
WEFT_NOTHING(verbs_register_driver_64, 64)
WEFT_NOTHING(verbs_register_driver_65, 65)
