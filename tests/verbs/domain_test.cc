// Thread domains and parent domains.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "verbs_fixture.h"

namespace {

/// What a program's allocator was asked for.
struct Allocator {
  int allocated{};
  int freed{};
  bool refuses{};
  bool declines{};
};

void* allocate(ibv_pd*, void* context, std::size_t size, std::size_t alignment, std::uint64_t) {
  auto& allocator = *static_cast<Allocator*>(context);
  if (allocator.declines) {
    return IBV_ALLOCATOR_USE_DEFAULT;
  }
  void* memory = nullptr;
  if (allocator.refuses || posix_memalign(&memory, alignment, size) != 0) {
    return nullptr;
  }
  ++allocator.allocated;
  return memory;
}

void release(ibv_pd*, void* context, void* memory, std::uint64_t) {
  ++static_cast<Allocator*>(context)->freed;
  free(memory);
}

class Domains : public Verbs {
 protected:
  ibv_pd* parent_with(Allocator& allocator) {
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = pd_;
    attributes.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attributes.alloc = allocate;
    attributes.free = release;
    attributes.pd_context = &allocator;
    return ibv_alloc_parent_domain(context_, &attributes);
  }
};

TEST_F(Domains, HoldWhatTheyAreMadeOf) {
  ibv_td_init_attr none{};
  ibv_td* const td = ibv_alloc_td(context_, &none);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = pd_;
  attributes.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(context_, &attributes);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  char memory[64];
  ibv_mr* const mr = ibv_reg_mr(parent, memory, sizeof memory, int{IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  attributes.pd = nullptr;
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Domains, TakeMemoryForTheirObjectsFromTheProgram) {
  Allocator allocator;
  ibv_pd* const parent = parent_with(allocator);
  ASSERT_NE(parent, nullptr);
  ibv_cq_init_attr_ex cq_attributes{};
  cq_attributes.cqe = 8;
  cq_attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attributes.parent_domain = pd_;
  EXPECT_EQ(ibv_create_cq_ex(context_, &cq_attributes), nullptr) << "not a parent domain";
  EXPECT_EQ(errno, EINVAL);
  cq_attributes.parent_domain = parent;
  ibv_cq_ex* const cq = ibv_create_cq_ex(context_, &cq_attributes);
  ASSERT_NE(cq, nullptr);
  auto attributes = qp_attributes(ibv_cq_ex_to_cq(cq));
  ibv_qp* const qp = ibv_create_qp(parent, &attributes);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->pd, parent);
  EXPECT_EQ(allocator.allocated, 2);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  allocator.refuses = true;
  EXPECT_EQ(ibv_create_qp(parent, &attributes), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  allocator.declines = true;
  ibv_qp* const usual = ibv_create_qp(parent, &attributes);
  ASSERT_NE(usual, nullptr) << "memory of ours where the allocator leaves it to us";
  EXPECT_EQ(ibv_destroy_qp(usual), 0);
  EXPECT_EQ(allocator.freed, 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(allocator.freed, 2);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(Verbs, GiveObjectsASecondNameInAnImportedContext) {
  char memory[64] = "first name";
  ibv_mr* const mr = ibv_reg_mr(pd_, memory, sizeof memory, int{IBV_ACCESS_LOCAL_WRITE});
  ibv_alloc_dm_attr attributes{.length = 64, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* const dm = ibv_alloc_dm(context_, &attributes);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_import_device(context_->cmd_fd), nullptr) << "not duplicated";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_import_device(STDIN_FILENO), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_context* const second = ibv_import_device(dup(context_->cmd_fd));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_import_pd(second, 12'345), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_pd* const pd = ibv_import_pd(second, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* const same = ibv_import_mr(pd, mr->handle);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->rkey, mr->rkey);
  EXPECT_EQ(same->addr, nullptr);
  ibv_dm* const same_dm = ibv_import_dm(second, dm->handle);
  ASSERT_NE(same_dm, nullptr);
  std::uint32_t word = 0x1234;
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 8, &word, 4), 0);
  word = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&word, same_dm, 8, 4), 0);
  EXPECT_EQ(word, 0x1234U);
  ibv_unimport_dm(same_dm);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  // Destroyed under one name, it is gone under the other, too.
  EXPECT_EQ(ibv_dereg_mr(same), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL);
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(second), 0);
}

}  // namespace
