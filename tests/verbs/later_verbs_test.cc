// What programs of newer distributions ask of libibverbs, by the version under which they ask for
// it.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>

#include "verbs_fixture.h"

namespace {

struct Symbol {
  const char* version;
  const char* name;
};
constexpr auto kSymbols = std::to_array<Symbol>({
    {"IBVERBS_1.15",       "ibv_alloc_dmah"           },
    {"IBVERBS_1.15",       "ibv_dealloc_dmah"         },
    {"IBVERBS_1.15",       "ibv_reg_mr_ex"            },
    {"IBVERBS_1.16",       "ibv_dm_export_dmabuf_fd"  },
    {"IBVERBS_1.16",       "ibv_query_port_speed"     },
    {"IBVERBS_1.17",       "ibv_alloc_buf"            },
    {"IBVERBS_1.17",       "ibv_free_buf"             },
    {"IBVERBS_1.17",       "ibv_reg_buf_mr"           },
    {"IBVERBS_1.18",       "_ibv_query_comp_cntr_caps"},
    {"IBVERBS_1.18",       "ibv_create_comp_cntr"     },
    {"IBVERBS_1.18",       "ibv_destroy_comp_cntr"    },
    {"IBVERBS_1.18",       "ibv_export_buf_dmabuf_fd" },
    {"IBVERBS_1.18",       "ibv_inc_comp_cntr"        },
    {"IBVERBS_1.18",       "ibv_inc_err_comp_cntr"    },
    {"IBVERBS_1.18",       "ibv_qp_attach_comp_cntr"  },
    {"IBVERBS_1.18",       "ibv_read_comp_cntr"       },
    {"IBVERBS_1.18",       "ibv_read_err_comp_cntr"   },
    {"IBVERBS_1.18",       "ibv_set_comp_cntr"        },
    {"IBVERBS_1.18",       "ibv_set_err_comp_cntr"    },
    {"IBVERBS_PRIVATE_34", "ibv_wr_opcode_str"        },
    {"IBVERBS_PRIVATE_34", "ibv_cmd_create_cq_ex2"    },
    {"IBVERBS_PRIVATE_57", "ibv_query_gid_type"       },
    {"IBVERBS_PRIVATE_57", "verbs_register_driver_57" },
    {"IBVERBS_PRIVATE_59", "ibv_query_gid_type"       },
    {"IBVERBS_PRIVATE_59", "verbs_register_driver_59" },
    {"IBVERBS_PRIVATE_64", "ibv_query_gid_type"       },
    {"IBVERBS_PRIVATE_64", "verbs_register_driver_64" },
    {"IBVERBS_PRIVATE_65", "ibv_query_gid_type"       },
    {"IBVERBS_PRIVATE_65", "verbs_register_driver_65" },
    {"IBVERBS_PRIVATE_65", "verbs_init_cq"            },
    {"IBVERBS_PRIVATE_65", "ibv_cmd_create_comp_cntr" },
});

template <class Function>
[[nodiscard]] Function* symbol(const Symbol& wanted) {
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  return std::bit_cast<Function*>(dlvsym(library, wanted.name, wanted.version));
}

TEST(LaterVerbs, HaveTheVersionsThatNewerProgramsAskFor) {
  for (const Symbol& wanted : kSymbols) {
    EXPECT_NE(symbol<void()>(wanted), nullptr) << wanted.name << '@' << wanted.version;
  }
}

TEST_F(Verbs, OfEveryPrivateVersionTellTheTypeOfAGid) {  // as ibv_devinfo asks
  for (const char* const version :
       {"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_64",
        "IBVERBS_PRIVATE_65"}) {
    auto* const query = symbol<int(ibv_context*, std::uint8_t, unsigned, unsigned*)>(
        {version, "ibv_query_gid_type"});
    ASSERT_NE(query, nullptr) << version;
    unsigned type = 77;
    EXPECT_EQ(query(context_, 1, 0, &type), 0);
    EXPECT_EQ(type, 0U);
  }
}

/// ibv_mr_init_attr of rdma-core 57 and later.
struct RegionAttributes {
  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* addr;
  int fd;
  std::uint64_t fd_offset;
  void* dmah;
  void* buf;
};

TEST_F(Verbs, RegisterMemoryByAttributes) {
  auto* const reg = symbol<ibv_mr*(ibv_pd*, void*)>({"IBVERBS_1.15", "ibv_reg_mr_ex"});
  ASSERT_NE(reg, nullptr);
  alignas(8) std::array<char, 64> memory{};
  RegionAttributes attributes{};
  attributes.length = memory.size();
  attributes.access = IBV_ACCESS_LOCAL_WRITE;
  attributes.comp_mask = 1U << 1;  // addr
  attributes.addr = memory.data();
  ibv_mr* const mr = reg(pd_, &attributes);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory.data());
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  const auto refused = [&](std::uint64_t mask) {
    attributes.comp_mask = mask;
    return reg(pd_, &attributes) == nullptr ? errno : 0;
  };
  EXPECT_EQ(refused(0), EINVAL) << "neither memory nor a descriptor";
  EXPECT_EQ(refused(1U << 1 | 1U << 2), EINVAL) << "both";
  EXPECT_EQ(refused(1U << 2), EOPNOTSUPP) << "a DMA-BUF";
  EXPECT_EQ(refused(1U << 1 | 1U << 4), EOPNOTSUPP) << "a DMA handle";
  EXPECT_EQ(refused(1U << 1 | std::uint64_t{1} << 40), EOPNOTSUPP) << "who knows";
}

TEST_F(Verbs, TellThePortsSpeed) {
  // ibv_query_port_speed(3): in units of 100 Mb/s; ibv_port_attr's active_speed_ex lies behind what
  // older headers know.
  struct {
    ibv_port_attr known;
    std::uint32_t active_speed_ex;
  } port{};
  static_assert(sizeof port == 56);
  const verbs_context* const verbs = verbs_get_ctx(context_);
  ASSERT_EQ(verbs->query_port(context_, 1, &port.known, sizeof port), 0);
  EXPECT_EQ(port.active_speed_ex, port.known.active_speed);
  auto* const query = symbol<int(ibv_context*, std::uint32_t, std::uint64_t*)>(
      {"IBVERBS_1.16", "ibv_query_port_speed"});
  ASSERT_NE(query, nullptr);
  std::uint64_t speed = 0;
  EXPECT_EQ(query(context_, 1, &speed), 0);
  ASSERT_EQ(port.known.active_width, 2) << "4x";
  const std::uint64_t lane = port.known.active_speed == 128  ? 1'000
                             : port.known.active_speed == 64 ? 500
                             : port.known.active_speed == 32 ? 250
                                                             : 0;
  EXPECT_EQ(speed, 4 * lane);
  EXPECT_EQ(query(context_, 2, &speed), EINVAL);
  EXPECT_EQ(query(context_, 300, &speed), EINVAL);
}

/// ibv_rc_pingpong of rdma-core 65 has all its memory from there.
TEST_F(Verbs, AllocateBuffersAndRegisterPartsOfThem) {
  auto* const allocate =
      symbol<void*(ibv_pd*, std::size_t, void**)>({"IBVERBS_1.17", "ibv_alloc_buf"});
  auto* const free_buffer = symbol<void(void*)>({"IBVERBS_1.17", "ibv_free_buf"});
  auto* const reg =
      symbol<ibv_mr*(ibv_pd*, void*, void*, std::size_t, int)>({"IBVERBS_1.17", "ibv_reg_buf_mr"});
  auto* const to_descriptor = symbol<int(void*)>({"IBVERBS_1.18", "ibv_export_buf_dmabuf_fd"});
  ASSERT_TRUE(allocate != nullptr && free_buffer != nullptr && reg != nullptr &&
              to_descriptor != nullptr);
  constexpr std::size_t kBytes = 10'000;
  void* buffer = nullptr;
  auto* const memory = static_cast<char*>(allocate(pd_, kBytes, &buffer));
  ASSERT_NE(memory, nullptr);
  ASSERT_NE(buffer, nullptr);
  std::memset(memory, 'x', kBytes);
  ibv_mr* const part = reg(pd_, buffer, memory + 100, kBytes - 100, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->addr, memory + 100);
  EXPECT_EQ(part->length, kBytes - 100);
  EXPECT_EQ(ibv_dereg_mr(part), 0);
  ibv_pd* const other = ibv_alloc_pd(context_);
  for (const auto& [pd, at, length] : {
           std::tuple{pd_,   memory + 100, kBytes - 99   },
           std::tuple{pd_,   memory - 1,   std::size_t{8}},
           std::tuple{other, memory,       kBytes        }
  }) {
    errno = 0;
    EXPECT_EQ(reg(pd, buffer, at, length, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  errno = 0;
  EXPECT_EQ(to_descriptor(buffer), -1);
  EXPECT_EQ(errno, ENODATA);
  free_buffer(buffer);
}

TEST_F(Verbs, RefuseWhatTakesAKernelOrABus) {
  auto* const dma_handle = symbol<void*(ibv_context*, void*)>({"IBVERBS_1.15", "ibv_alloc_dmah"});
  auto* const counter =
      symbol<void*(ibv_context*, void*)>({"IBVERBS_1.18", "ibv_create_comp_cntr"});
  ASSERT_TRUE(dma_handle != nullptr && counter != nullptr);
  EXPECT_EQ(dma_handle(context_, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(counter(context_, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  auto* const capabilities =
      symbol<int(ibv_context*, void*, std::size_t)>({"IBVERBS_1.18", "_ibv_query_comp_cntr_caps"});
  ASSERT_NE(capabilities, nullptr);
  EXPECT_EQ(capabilities(context_, nullptr, 0), EOPNOTSUPP);
}

}  // namespace
