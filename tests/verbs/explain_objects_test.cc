// Why domains, memory, address handles, groups and ports refuse.

#include <sys/mman.h>

#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

#include "explain.h"

namespace {

[[nodiscard]] void* memory_of(Explain& verbs) { return verbs.mr_->addr; }

int reg(Explain& verbs, void* address, std::size_t length, unsigned access) {
  return Explain::refused(ibv_reg_mr_iova2(verbs.pd_, address, length, verbs.address(), access));
}

template <class Use>
int with_device_memory(Explain& verbs, Use use) {
  ibv_alloc_dm_attr attributes{};
  attributes.length = 64;
  ibv_dm* const dm = ibv_alloc_dm(verbs.context_, &attributes);
  EXPECT_NE(dm, nullptr);
  const int result = use(dm);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  return result;
}

int create_ah(Explain& verbs, void (*set)(ibv_ah_attr&)) {
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  set(attributes);
  return Explain::refused(ibv_create_ah(verbs.pd_, &attributes));
}

[[nodiscard]] ibv_gid group_gid() {
  ibv_gid gid{};
  gid.raw[0] = 0xFF;
  gid.raw[1] = 0x12;
  gid.raw[15] = 7;
  return gid;
}
constexpr std::uint16_t kMlid = 0xC003;

int dealloc_pd_busy(Explain& verbs) { return ibv_dealloc_pd(verbs.pd_); }
int alloc_td_mask(Explain& verbs) {
  ibv_td_init_attr attributes{.comp_mask = 1};
  return Explain::refused(ibv_alloc_td(verbs.context_, &attributes));
}
int dealloc_td_busy(Explain& verbs) {
  ibv_td_init_attr none{};
  ibv_td* const td = ibv_alloc_td(verbs.context_, &none);
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = verbs.pd_;
  attributes.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(verbs.context_, &attributes);
  const int result = ibv_dealloc_td(td);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  return result;
}
int alloc_parent_domain_without_pd(Explain& verbs) {
  ibv_parent_domain_init_attr attributes{};
  return Explain::refused(ibv_alloc_parent_domain(verbs.context_, &attributes));
}
int alloc_parent_domain_mask(Explain& verbs) {
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = verbs.pd_;
  attributes.comp_mask = 1U << 2;
  return Explain::refused(ibv_alloc_parent_domain(verbs.context_, &attributes));
}
int dealloc_pd_handle(Explain& verbs, std::uint32_t handle) {
  ibv_pd* const pd = ibv_alloc_pd(verbs.context_);
  const std::uint32_t own = std::exchange(pd->handle, handle);
  const int result = ibv_dealloc_pd(pd);
  pd->handle = own;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  return result;
}
int dealloc_pd_handle_never_given(Explain& verbs) { return dealloc_pd_handle(verbs, 987'654); }
int dealloc_pd_handle_of_another(Explain& verbs) {
  return dealloc_pd_handle(verbs, verbs.pd_->handle);
}
int dealloc_pd_gone(Explain& verbs) {
  ibv_context* const second = ibv_import_device(dup(verbs.context_->cmd_fd));
  ibv_pd* const pd = ibv_alloc_pd(verbs.context_);
  ibv_pd* const same = ibv_import_pd(second, pd->handle);
  EXPECT_EQ(ibv_dealloc_pd(same), 0);
  const int result = ibv_dealloc_pd(pd);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(second), 0);
  return result;
}
int dereg_mr_handle_never_given(Explain& verbs) {
  const std::uint32_t own = std::exchange(verbs.mr_->handle, 987'654);
  const int result = ibv_dereg_mr(verbs.mr_);
  verbs.mr_->handle = own;
  return result;
}
int reg_mr_length(Explain& verbs) { return reg(verbs, memory_of(verbs), 0, 0); }
int reg_mr_access(Explain& verbs) { return reg(verbs, memory_of(verbs), 8, 1U << 15); }
int reg_mr_remote_without_local_write(Explain& verbs) {
  return reg(verbs, memory_of(verbs), 8, IBV_ACCESS_REMOTE_WRITE);
}
int reg_mr_memory_that_is_not(Explain& verbs) {
  void* const hole =
      mmap(nullptr, 8'192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 8'192);
  return reg(verbs, hole, 8'192, IBV_ACCESS_LOCAL_WRITE);
}
int reg_dmabuf_mr(Explain& verbs) {
  return Explain::refused(ibv_reg_dmabuf_mr(verbs.pd_, 0, 8, 0, 0, 0));
}
int rereg_mr_flags(Explain& verbs) {
  EXPECT_EQ(ibv_rereg_mr(verbs.mr_, 1 << 7, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  return errno;
}
int rereg_mr_without_pd(Explain& verbs) {
  EXPECT_EQ(ibv_rereg_mr(verbs.mr_, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  return errno;
}
int rereg_mr_access(Explain& verbs) {
  EXPECT_EQ(ibv_rereg_mr(verbs.mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         int{IBV_ACCESS_REMOTE_ATOMIC}),
            IBV_REREG_MR_ERR_CMD);
  return errno;
}
int dereg_mr_busy(Explain& verbs) {
  ibv_mr* const mr =
      ibv_reg_mr(verbs.pd_, memory_of(verbs), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const window = ibv_alloc_mw(verbs.pd_, IBV_MW_TYPE_1);
  ibv_mw_bind bind{};
  bind.bind_info = {
      .mr = mr, .addr = verbs.address(), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  EXPECT_EQ(ibv_bind_mw(verbs.a_, window, &bind), 0);
  const int result = ibv_dereg_mr(mr);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  return result;
}
int advise_mr_flags(Explain& verbs) {
  ibv_sge sge = verbs.sge(8);
  return ibv_advise_mr(verbs.pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 1U << 5, &sge, 1);
}
int advise_mr_advice(Explain& verbs) {
  ibv_sge sge = verbs.sge(8);
  return ibv_advise_mr(verbs.pd_, static_cast<ibv_advise_mr_advice>(3), 0, &sge, 1);
}
int alloc_mw_type(Explain& verbs) {
  return Explain::refused(ibv_alloc_mw(verbs.pd_, static_cast<ibv_mw_type>(3)));
}
int bind_mw_in_reset(Explain& verbs) {
  ibv_mw* const window = ibv_alloc_mw(verbs.pd_, IBV_MW_TYPE_1);
  ibv_mw_bind bind{};
  const int result =
      verbs.with_qp(IBV_QPT_RC, [&](ibv_qp* qp) { return ibv_bind_mw(qp, window, &bind); });
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  return result;
}
int alloc_dm_length(Explain& verbs) {
  ibv_alloc_dm_attr attributes{};
  return Explain::refused(ibv_alloc_dm(verbs.context_, &attributes));
}
int alloc_dm_limit(Explain& verbs) {
  ibv_alloc_dm_attr attributes{};
  attributes.length = std::size_t{1} << 30;
  return Explain::refused(ibv_alloc_dm(verbs.context_, &attributes));
}
int memcpy_to_dm_alignment(Explain& verbs) {
  return with_device_memory(
      verbs, [&](ibv_dm* dm) { return ibv_memcpy_to_dm(dm, 2, memory_of(verbs), 4); });
}
int memcpy_from_dm_range(Explain& verbs) {
  return with_device_memory(
      verbs, [&](ibv_dm* dm) { return ibv_memcpy_from_dm(memory_of(verbs), dm, 64, 4); });
}
int reg_dm_mr_not_zero_based(Explain& verbs) {
  return with_device_memory(verbs, [&](ibv_dm* dm) {
    return Explain::refused(ibv_reg_dm_mr(verbs.pd_, dm, 0, 8, IBV_ACCESS_LOCAL_WRITE));
  });
}
int free_dm_busy(Explain& verbs) {
  return with_device_memory(verbs, [&](ibv_dm* dm) {
    ibv_mr* const mr = ibv_reg_dm_mr(verbs.pd_, dm, 0, 8, IBV_ACCESS_ZERO_BASED);
    const int result = ibv_free_dm(dm);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    return result;
  });
}
int create_ah_port(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr& to) { to.port_num = 0; });
}
int create_ah_gid_index(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr& to) {
    to.dlid = 1;
    to.is_global = 1;
    to.grh.sgid_index = 9;
  });
}
int create_ah_static_rate(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr& to) { to.static_rate = 25; });
}
int create_ah_service_level(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr& to) { to.sl = 16; });
}
int create_ah_dlid(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr&) {});
}
int create_ah_global_dlid(Explain& verbs) {
  return create_ah(verbs, [](ibv_ah_attr& to) { to.is_global = 1; });
}
int create_ah_from_wc_of_another_port(Explain& verbs) {
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};
  return Explain::refused(ibv_create_ah_from_wc(verbs.pd_, &wc, &grh, 1));
}
int attach_mcast_type(Explain& verbs) {
  const ibv_gid gid = group_gid();
  return ibv_attach_mcast(verbs.a_, &gid, kMlid);
}
int attach_mcast_gid(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    const ibv_gid gid{};
    return ibv_attach_mcast(qp, &gid, kMlid);
  });
}
int attach_mcast_lid(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    const ibv_gid gid = group_gid();
    return ibv_attach_mcast(qp, &gid, 1);
  });
}
int attach_mcast_another_mlid(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    const ibv_gid gid = group_gid();
    EXPECT_EQ(ibv_attach_mcast(qp, &gid, kMlid), 0);
    const int result = ibv_attach_mcast(qp, &gid, kMlid + 1);
    EXPECT_EQ(ibv_detach_mcast(qp, &gid, kMlid), 0);
    return result;
  });
}
int detach_mcast_not_attached(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    const ibv_gid gid = group_gid();
    return ibv_detach_mcast(qp, &gid, kMlid);
  });
}
int destroy_qp_attached(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    const ibv_gid gid = group_gid();
    EXPECT_EQ(ibv_attach_mcast(qp, &gid, kMlid), 0);
    const int result = ibv_destroy_qp(qp);
    EXPECT_EQ(ibv_detach_mcast(qp, &gid, kMlid), 0);
    return result;
  });
}
int query_port_number(Explain& verbs) {
  ibv_port_attr port{};
  return ibv_query_port(verbs.context_, 2, &port);
}
int query_gid_index(Explain& verbs) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(verbs.context_, 1, 99, &gid), -1);
  return errno;
}
int query_gid_ex_empty(Explain& verbs) {
  ibv_gid_entry entry{};
  return ibv_query_gid_ex(verbs.context_, 1, 5, &entry, 0);
}
int query_pkey_index(Explain& verbs) {
  __be16 pkey{};
  EXPECT_EQ(ibv_query_pkey(verbs.context_, 1, 77, &pkey), -1);
  return errno;
}
int get_pkey_index_unknown(Explain& verbs) {
  EXPECT_EQ(ibv_get_pkey_index(verbs.context_, 1, 0x1234), -1);
  return errno;
}
int import_device_of_nobody(Explain&) { return Explain::refused(ibv_import_device(0)); }
int import_pd_unknown(Explain& verbs) {
  return Explain::refused(ibv_import_pd(verbs.context_, 4'711));
}

constexpr auto kRefusals = std::to_array<Explain::Refusal>({
    {"dealloc_pd_busy",                   EBUSY,      "domain",                       "objects",                             dealloc_pd_busy          },
    {"alloc_td_mask",                     EINVAL,     "thread domain",                "unknown attributes",                  alloc_td_mask            },
    {"dealloc_td_busy",                   EBUSY,      "thread domain",                "deallocate those first",              dealloc_td_busy          },
    {"alloc_parent_domain_without_pd",    EINVAL,     "parent domain",                "needs a PD",
     alloc_parent_domain_without_pd                                                                                                                   },
    {"alloc_parent_domain_mask",          EOPNOTSUPP, "comp_mask 0x4",                "only 0x3 are known here",
     alloc_parent_domain_mask                                                                                                                         },
    {"dealloc_pd_handle_never_given",     EINVAL,     "PD with handle 987654",        "never had",
     dealloc_pd_handle_never_given                                                                                                                    },
    {"dealloc_pd_handle_of_another",      EINVAL,     "another PD",                   "has changed its object",
     dealloc_pd_handle_of_another                                                                                                                     },
    {"dealloc_pd_gone",                   EINVAL,     "PD with handle",               "exists no more",                      dealloc_pd_gone          },
    {"dereg_mr_handle_never_given",       EINVAL,     "region with handle 987654",    "never had",
     dereg_mr_handle_never_given                                                                                                                      },
    {"create_ah_dlid",                    EINVAL,     "DLID 0",                       "reserved",                            create_ah_dlid           },
    {"create_ah_global_dlid",             EINVAL,     "DLID 0",                       "GRH",                                 create_ah_global_dlid    },
    {"reg_mr_length",                     EINVAL,     "region",                       "at least one byte",                   reg_mr_length            },
    {"reg_mr_access",                     EINVAL,     "access flags 0x8000",          "are known here",                      reg_mr_access            },
    {"reg_mr_remote_without_local_write", EINVAL,     "remote write",                 "local write",
     reg_mr_remote_without_local_write                                                                                                                },
    {"reg_mr_memory_that_is_not",         EFAULT,     "8192 bytes",                   "memory that exists",
     reg_mr_memory_that_is_not                                                                                                                        },
    {"reg_dmabuf_mr",                     EOPNOTSUPP, "DMA-BUF",                      "register a mapping",                  reg_dmabuf_mr            },
    {"rereg_mr_flags",                    EINVAL,     "flags",                        "unknown",                             rereg_mr_flags           },
    {"rereg_mr_without_pd",               EINVAL,     "PD",                           "none is given",                       rereg_mr_without_pd      },
    {"rereg_mr_access",                   EINVAL,     "remote",                       "local write",                         rereg_mr_access          },
    {"dereg_mr_busy",                     EBUSY,      "region",                       "window",                              dereg_mr_busy            },
    {"advise_mr_flags",                   EINVAL,     "FLUSH",                        "only flag",                           advise_mr_flags          },
    {"advise_mr_advice",                  ENOTSUP,    "advices",                      "prefetching",                         advise_mr_advice         },
    {"alloc_mw_type",                     EINVAL,     "memory window",                "of type 1 or 2",                      alloc_mw_type            },
    {"bind_mw_in_reset",                  EINVAL,     "RESET",                        "move the QP to RTS first",            bind_mw_in_reset         },
    {"alloc_dm_length",                   EINVAL,     "device memory",                "has a length",                        alloc_dm_length          },
    {"alloc_dm_limit",                    ENOMEM,     "device memory",                "max_dm_size",                         alloc_dm_limit           },
    {"memcpy_to_dm_alignment",            EINVAL,     "copies",                       "multiples of 4",                      memcpy_to_dm_alignment   },
    {"memcpy_from_dm_range",              EINVAL,     "copy",                         "not inside the device memory",        memcpy_from_dm_range     },
    {"reg_dm_mr_not_zero_based",          EINVAL,     "region of device memory",      "zero based",
     reg_dm_mr_not_zero_based                                                                                                                         },
    {"free_dm_busy",                      EBUSY,      "regions of the device memory", "deregister those first",              free_dm_busy             },
    {"create_ah_port",                    EINVAL,     "port 0",                       "not in 1..1",                         create_ah_port           },
    {"create_ah_gid_index",               EINVAL,     "GID index 9",                  "outside port 1's table",              create_ah_gid_index      },
    {"create_ah_static_rate",             EINVAL,     "static rate 25",               "not a rate",                          create_ah_static_rate    },
    {"create_ah_service_level",           EINVAL,     "service level 16",             "not in 0..15",
     create_ah_service_level                                                                                                                          },
    {"create_ah_from_wc_of_another_port", EINVAL,     "GRH",                          "not addressed to a GID of this port",
     create_ah_from_wc_of_another_port                                                                                                                },
    {"attach_mcast_type",                 EINVAL,     "multicast group",              "only UD QPs",                         attach_mcast_type        },
    {"attach_mcast_gid",                  EINVAL,     "GID",                          "not a multicast",                     attach_mcast_gid         },
    {"attach_mcast_lid",                  EINVAL,     "LID 1",                        "not a multicast",                     attach_mcast_lid         },
    {"attach_mcast_another_mlid",         EINVAL,     "MLID 49155",                   "not 49156",                           attach_mcast_another_mlid},
    {"detach_mcast_not_attached",         EINVAL,     "QP 0x",                        "not attached to that group",
     detach_mcast_not_attached                                                                                                                        },
    {"destroy_qp_attached",               EBUSY,      "multicast group",              "detach it first",                     destroy_qp_attached      },
    {"query_port_number",                 EINVAL,     "port 2",                       "not one of this HCA's",               query_port_number        },
    {"query_gid_index",                   EINVAL,     "GID 99",                       "no GID",                              query_gid_index          },
    {"query_gid_ex_empty",                ENODATA,    "GID 5",                        "is empty",                            query_gid_ex_empty       },
    {"query_pkey_index",                  EINVAL,     "P_Key 77",                     "no P_Key",                            query_pkey_index         },
    {"get_pkey_index_unknown",            EINVAL,     "P_Key",                        "no such",                             get_pkey_index_unknown   },
    {"import_device_of_nobody",           EOPNOTSUPP, "descriptor 0",                 "cannot be imported",
     import_device_of_nobody                                                                                                                          },
    {"import_pd_unknown",                 ENOENT,     "handle 4711",                  "no PD",                               import_pd_unknown        },
});

class ExplainObjects : public Explain {};

TEST_P(ExplainObjects, WhichAttributeBrokeWhichRule) { check(kRefusals[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Table, ExplainObjects, ::testing::Range(std::size_t{0}, kRefusals.size()),
                         [](const auto& test) { return std::string{kRefusals[test.param].how}; });

}  // namespace
