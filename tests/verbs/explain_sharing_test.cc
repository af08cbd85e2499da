// Why objects that programs share cannot be opened or imported: target QPs of XRC domains, devices,
// PDs, regions.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "explain.h"

namespace {

/// A domain that other programs may share, opened while `use` takes.
template <class Use>
int with_shared_xrcd(Explain& verbs, Use use) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = file;
  attributes.oflags = O_CREAT;
  ibv_xrcd* const xrcd = ibv_open_xrcd(verbs.context_, &attributes);
  EXPECT_NE(xrcd, nullptr);
  const int result = use(xrcd, file);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  close(file);
  return result;
}
int open_target(Explain& verbs, std::uint32_t number) {
  return with_shared_xrcd(verbs, [&](ibv_xrcd* xrcd, int) {
    ibv_qp_open_attr attributes{};
    attributes.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attributes.qp_num = number;
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.xrcd = xrcd;
    return Explain::refused(ibv_open_qp(verbs.context_, &attributes));
  });
}
/// Its own RC QP has that number.
int open_qp_no_target(Explain& verbs) { return open_target(verbs, verbs.a_->qp_num); }
/// Of a process that does not exist.
int open_qp_of_nobody(Explain& verbs) { return open_target(verbs, 0xFF'0001); }
int open_qp_number(Explain& verbs) { return open_target(verbs, 0x100'0000); }
int open_xrcd_exclusively(Explain& verbs) {
  return with_shared_xrcd(verbs, [&](ibv_xrcd*, int file) {
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = file;
    attributes.oflags = O_CREAT | O_EXCL;
    return Explain::refused(ibv_open_xrcd(verbs.context_, &attributes));
  });
}
int open_xrcd_of_nobody(Explain& verbs) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = file;
  const int result = Explain::refused(ibv_open_xrcd(verbs.context_, &attributes));
  close(file);
  return result;
}

int import_device_itself(Explain& verbs) {
  return Explain::refused(ibv_import_device(verbs.context_->cmd_fd));
}
/// Named as a command descriptor is, and none.
int import_device_forged(Explain&) {
  const int file = memfd_create("weft-device", MFD_CLOEXEC);
  const int result = Explain::refused(ibv_import_device(file));
  close(file);
  return result;
}
template <class Use>
int with_imported_pd(Explain& verbs, Use use) {
  ibv_context* const context = ibv_import_device(dup(verbs.context_->cmd_fd));
  ibv_pd* const pd = ibv_import_pd(context, verbs.pd_->handle);
  const int result = use(pd);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(context), 0);
  return result;
}
int import_mr_unknown(Explain& verbs) {
  return with_imported_pd(verbs,
                          [](ibv_pd* pd) { return Explain::refused(ibv_import_mr(pd, 4'711)); });
}
int import_mr_of_another_pd(Explain& verbs) {
  ibv_pd* const other = ibv_alloc_pd(verbs.context_);
  const int result = Explain::refused(ibv_import_mr(other, verbs.mr_->handle));
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  return result;
}
int import_dm_unknown(Explain& verbs) {
  return Explain::refused(ibv_import_dm(verbs.context_, 4'711));
}
int dealloc_pd_again(Explain& verbs) {
  ibv_pd* const pd = ibv_alloc_pd(verbs.context_);
  ibv_pd* const same = ibv_import_pd(verbs.context_, pd->handle);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  const int result = ibv_dealloc_pd(same);
  ibv_unimport_pd(same);
  return result;
}

constexpr auto kRefusals = std::to_array<Explain::Refusal>({
    {"open_qp_no_target",       EINVAL,     "number 0x",          "no target QP of the XRC domain",    open_qp_no_target      },
    {"open_qp_of_nobody",       EINVAL,     "number",             "does not have the XRC domain open", open_qp_of_nobody      },
    {"open_qp_number",          EINVAL,     "number",             "only an XRC target QP",             open_qp_number         },
    {"open_xrcd_exclusively",   EINVAL,     "O_EXCL",             "open already",                      open_xrcd_exclusively  },
    {"open_xrcd_of_nobody",     EAGAIN,     "XRC domain",         "O_CREAT creates one",               open_xrcd_of_nobody    },
    {"import_device_itself",    EINVAL,     "command descriptor", "must be duplicated",
     import_device_itself                                                                                                     },
    {"import_device_forged",    EOPNOTSUPP, "descriptor",
     "no device which a program of this host has open",                                                import_device_forged   },
    {"import_mr_unknown",       ENOENT,     "handle 4711",        "no region",                         import_mr_unknown      },
    {"import_mr_of_another_pd", EINVAL,     "region",             "of another PD",                     import_mr_of_another_pd},
    {"import_dm_unknown",       ENOENT,     "handle 4711",        "no device memory",                  import_dm_unknown      },
    {"dealloc_pd_again",        EINVAL,     "PD",                 "only unimport this one",            dealloc_pd_again       },
});

class ExplainSharing : public Explain {};

TEST_P(ExplainSharing, WhichAttributeBrokeWhichRule) { check(kRefusals[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Table, ExplainSharing, ::testing::Range(std::size_t{0}, kRefusals.size()),
                         [](const auto& test) { return std::string{kRefusals[test.param].how}; });

}  // namespace
