// A device, its PD and its regions, imported by another process (ibv_import_device(3)).

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "forked_program.h"
#include "verbs_fixture.h"

namespace {

constexpr std::size_t kBytes = 8'192;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// What a program imports.
struct Imported {
  ibv_context* context{};
  ibv_pd* pd{};
  ibv_mr* mr{};
};

class VerbsImport : public Verbs {
 protected:
  /// For a forked program: this copy of the fixture is its own.
  [[nodiscard]] Imported import(int command, std::uint32_t pd, std::uint32_t mr) {
    Imported made;
    made.context = ibv_import_device(dup(command));
    EXPECT_NE(made.context, nullptr) << strerror(errno);
    context_ = made.context;
    made.pd = ibv_import_pd(made.context, pd);
    EXPECT_NE(made.pd, nullptr) << strerror(errno);
    made.mr = ibv_import_mr(made.pd, mr);
    EXPECT_NE(made.mr, nullptr) << strerror(errno);
    return made;
  }
  static void unimport(const Imported& made) {
    ibv_unimport_mr(made.mr);
    ibv_unimport_pd(made.pd);
    EXPECT_EQ(ibv_close_device(made.context), 0);
  }
  struct Ends {
    ibv_cq* cq{};
    ibv_qp* qp{};
  };
  [[nodiscard]] Ends make(ibv_pd* pd) const {
    Ends made;
    made.cq = ibv_create_cq(pd->context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes = qp_attributes(made.cq);
    attributes.sq_sig_all = 1;
    made.qp = ibv_create_qp(pd, &attributes);
    EXPECT_NE(made.qp, nullptr) << strerror(errno);
    return made;
  }
  static void destroy(const Ends& ends) {
    EXPECT_EQ(ibv_destroy_qp(ends.qp), 0);
    EXPECT_EQ(ibv_destroy_cq(ends.cq), 0);
  }
  /// Both programs are on one host, so that its own LID is the other's.
  void connect_to(ibv_qp* qp, std::uint64_t number) const {
    ibv_qp peer{};
    peer.qp_num = static_cast<std::uint32_t>(number);
    connect(qp, &peer);
  }
  static void write(ibv_qp* qp, const ibv_sge& from, std::uint64_t address, std::uint32_t rkey) {
    ibv_sge sge = from;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  [[nodiscard]] static char* map(int flags) {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
  }
  static std::uint64_t number_of(const char* memory) {
    return std::bit_cast<std::uint64_t>(memory);
  }
};

/// A peer writes through a QP of the importer's into a region of the owner's, and the importer's QP
/// gathers from it.
TEST_F(VerbsImport, GivesQpsOfAnotherProcessTheRegionsOfThePd) {
  char* const shared = map(MAP_SHARED);
  ASSERT_NE(shared, nullptr);
  ibv_mr* const mr = ibv_reg_mr(pd_, shared, kBytes, kAccess);
  ForkedProgram importer{[&](const Conversation& parent) {
    const Imported made = import(context_->cmd_fd, pd_->handle, mr->handle);
    EXPECT_EQ(made.mr->rkey, mr->rkey);
    EXPECT_EQ(made.mr->lkey, mr->lkey);
    EXPECT_EQ(made.mr->addr, nullptr);
    const Ends ends = make(made.pd);
    parent.say(ends.qp->qp_num);
    connect_to(ends.qp, parent.hear());
    parent.say(0);
    static_cast<void>(parent.hear());  // it has written
    EXPECT_STREQ(shared, "for both");
    std::strcpy(shared + 100, "by the importer");
    const auto lkey = made.mr->lkey;
    const std::uint64_t address = parent.hear();
    const auto rkey = static_cast<std::uint32_t>(parent.hear());
    write(ends.qp, {.addr = number_of(shared) + 100, .length = 32, .lkey = lkey}, address, rkey);
    EXPECT_EQ(wait(ends.cq).status, IBV_WC_SUCCESS);
    parent.say(0);
    static_cast<void>(parent.hear());
    destroy(ends);
    unimport(made);
  }};
  const Conversation child = importer.talk();
  ibv_pd* const own_pd = ibv_alloc_pd(context_);
  char own[64] = "for both";
  ibv_mr* const own_mr = ibv_reg_mr(own_pd, own, sizeof own, kAccess);
  const Ends ends = make(own_pd);
  const std::uint64_t peer = child.hear();
  connect_to(ends.qp, peer);
  child.say(ends.qp->qp_num);
  static_cast<void>(child.hear());  // it is connected
  write(ends.qp, {.addr = number_of(own), .length = 32, .lkey = own_mr->lkey}, number_of(shared),
        mr->rkey);
  EXPECT_EQ(wait(ends.cq).status, IBV_WC_SUCCESS);
  child.say(0);
  child.say(number_of(own));
  child.say(own_mr->rkey);
  static_cast<void>(child.hear());
  EXPECT_STREQ(own, "by the importer");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY) << "the importer has a QP in it";
  child.say(0);
  destroy(ends);
  EXPECT_EQ(ibv_dereg_mr(own_mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(own_pd), 0);
  munmap(shared, kBytes);
}

/// Decision 10: who owns memory places data into it, and its pages are not here.
TEST_F(VerbsImport, RefusesPrivateMemoryOfAnotherProcess) {
  char* const memory = map(MAP_PRIVATE);
  ASSERT_NE(memory, nullptr);
  ibv_mr* const mr = ibv_reg_mr(pd_, memory, kBytes, kAccess);
  ForkedProgram importer{[&](const Conversation& parent) {
    const Imported made = import(context_->cmd_fd, pd_->handle, mr->handle);
    EXPECT_EQ(made.mr->rkey, mr->rkey) << "peers of the owner's QPs may be told";
    Ends ends = make(made.pd);
    parent.say(ends.qp->qp_num);
    connect_to(ends.qp, parent.hear());
    parent.say(0);
    static_cast<void>(parent.hear());  // it has tried to write
    destroy(ends);
    ends = make(made.pd);
    parent.say(ends.qp->qp_num);
    connect_to(ends.qp, ends.qp->qp_num);
    write(ends.qp, {.addr = number_of(memory), .length = 8, .lkey = made.mr->lkey}, 0, 0);
    EXPECT_EQ(wait(ends.cq).status, IBV_WC_LOC_PROT_ERR);
    destroy(ends);
    unimport(made);
  }};
  const Conversation child = importer.talk();
  const Ends ends = make(pd_);
  connect_to(ends.qp, child.hear());
  child.say(ends.qp->qp_num);
  static_cast<void>(child.hear());
  write(ends.qp, {.addr = number_of(memory), .length = 8, .lkey = mr->lkey}, number_of(memory),
        mr->rkey);
  EXPECT_EQ(wait(ends.cq).status, IBV_WC_REM_ACCESS_ERR);
  child.say(0);
  static_cast<void>(child.hear());
  destroy(ends);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kBytes);
}

/// ibv_import_mr(3): destroyed by one of the processes, it is gone for all.
TEST_F(VerbsImport, DestroysObjectsForGood) {
  char* const shared = map(MAP_SHARED);
  ibv_mr* const mr = ibv_reg_mr(pd_, shared, kBytes, kAccess);
  ibv_pd* const pd = ibv_alloc_pd(context_);
  {
    const ForkedProgram importer{[&](const Conversation&) {
      const Imported made = import(context_->cmd_fd, pd_->handle, mr->handle);
      EXPECT_EQ(ibv_import_pd(made.context, 12'345), nullptr);
      EXPECT_EQ(errno, ENOENT);
      EXPECT_EQ(ibv_import_mr(made.pd, 12'345), nullptr);
      EXPECT_EQ(errno, ENOENT);
      ibv_pd* const other = ibv_import_pd(made.context, pd->handle);
      EXPECT_EQ(ibv_import_mr(other, mr->handle), nullptr) << "of another PD";
      EXPECT_EQ(errno, EINVAL);
      EXPECT_EQ(ibv_dealloc_pd(other), 0);
      EXPECT_EQ(ibv_rereg_mr(made.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
                IBV_REREG_MR_ERR_CMD);
      EXPECT_EQ(ibv_dereg_mr(made.mr), 0);
      ibv_pd* const own = ibv_alloc_pd(made.context);
      EXPECT_NE(own->handle, made.pd->handle) << "its own PDs have other handles";
      EXPECT_EQ(ibv_dealloc_pd(own), 0);
      ibv_unimport_pd(made.pd);
      EXPECT_EQ(ibv_close_device(made.context), 0);
    }};
  }
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL);
  ibv_unimport_mr(mr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EINVAL);
  ibv_unimport_pd(pd);
  munmap(shared, kBytes);
}

TEST_F(VerbsImport, OfAProcessThatDiesHoldsThePdNoLonger) {
  ForkedProgram importer{[&](const Conversation& parent) {
    ibv_context* const context = ibv_import_device(dup(context_->cmd_fd));
    static_cast<void>(make(ibv_import_pd(context, pd_->handle)));
    static_cast<void>(ibv_import_pd(context, pd_->handle));  // after what it has said before
    parent.say(0);
    pause();
  }};
  static_cast<void>(importer.talk().hear());
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  importer.kill();
  for (int i = 0; i < 1'000 && ibv_dealloc_pd(pd_) != 0; ++i) {
    usleep(10'000);
  }
  pd_ = ibv_alloc_pd(context_);  // the old one is gone
  ASSERT_NE(pd_, nullptr);
}

TEST_F(VerbsImport, EndsWithItsOwner) {
  ibv_context* const device = ibv_open_device(list_[0]);
  ibv_pd* const pd = ibv_alloc_pd(device);
  const ForkedProgram importer{[&](const Conversation& parent) {
    ibv_context* const context = ibv_import_device(dup(device->cmd_fd));
    ASSERT_NE(context, nullptr);
    parent.say(0);
    static_cast<void>(parent.hear());
    EXPECT_EQ(ibv_import_pd(context, pd->handle), nullptr);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_EQ(ibv_close_device(context), 0);
    EXPECT_EQ(ibv_import_device(dup(device->cmd_fd)), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }};
  const Conversation child = importer.talk();
  static_cast<void>(child.hear());
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(device), 0);
  child.say(0);
}

}  // namespace
