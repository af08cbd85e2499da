// fork_in_flight target | parent ROUNDS (0: until killed)
//
// The parent writes to the target and reads back, round by round, and forks with requests in
// flight: a child that tries the parent's objects, one that lives on, one that becomes another
// program.

#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "verbs_end.h"

namespace {

constexpr std::size_t kBytes = 256 * 1024;
constexpr unsigned kLongestLife = 120;  // seconds; policy: of a child that nobody ends
constexpr unsigned kFirstFork = 20;     // round; policy
constexpr unsigned kRoundsBetween = 5;

int be_target() {
  const crash::End end{4};
  std::vector<std::uint8_t> memory(kBytes);
  ibv_mr* const region = end.share(memory);
  ibv_qp* const qp = end.make_qp(1);
  crash::say(end.lid, " ", qp->qp_num, " ", crash::number_of(memory.data()), " ", region->rkey,
             "\n");
  crash::End::connect(qp, crash::read_peer());
  crash::say("connected\n");
  crash::wait_for_the_end();
  return 0;
}

class Parent {
 public:
  Parent() : region_(end_.share(memory_)), qp_(end_.make_qp(4)) {
    crash::say(end_.lid, " ", qp_->qp_num, "\n");
    const crash::Peer peer = crash::read_peer();
    unsigned long long address = 0;
    crash::require(std::scanf("%llu %u", &address, &rkey_) == 2, "memory of the target");
    address_ = address;
    crash::End::connect(qp_, peer);
  }

  int run(unsigned rounds) {
    pid_t prober = 0;
    pid_t other_program = 0;
    for (unsigned round = 0; rounds == 0 || round < rounds; ++round) {
      post_round(round);
      if (round == kFirstFork) {
        prober = fork_child([this] { std::exit(probe()); });
      } else if (round == kFirstFork + kRoundsBetween) {
        const pid_t sleeper = fork_child([] {
          alarm(kLongestLife);
          pause();
        });
        crash::say("sleeper ", sleeper, "\n");
      } else if (round == kFirstFork + 2 * kRoundsBetween) {
        other_program = fork_child([] { execlp("true", "true", nullptr); });
        crash::require(has_succeeded(prober), "the child that tried its parent's objects");
        crash::require(has_succeeded(other_program), "the child that became another program");
        crash::say("children ended\n");
      }
      finish_round();
    }
    crash::say("right\n");
    crash::wait_for_the_end();
    return 0;
  }

 private:
  template <class Body>
  [[nodiscard]] static pid_t fork_child(Body body) {
    const pid_t child = fork();
    crash::require(child >= 0, "fork");
    if (child == 0) {
      body();
      _exit(9);
    }
    return child;
  }

  [[nodiscard]] static bool has_succeeded(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
  }

  /// A WRITE of what is new this round and a READ of it, both under way when this returns.
  void post_round(unsigned round) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      memory_[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + round);
    }
    std::memset(memory_.data() + kBytes, 0, kBytes);
    post(IBV_WR_RDMA_WRITE, 0);
    post(IBV_WR_RDMA_READ, kBytes);
  }

  void finish_round() {
    static_cast<void>(end_.wait_for_success());
    static_cast<void>(end_.wait_for_success());
    crash::require(std::memcmp(memory_.data(), memory_.data() + kBytes, kBytes) == 0,
                   "what was read is what was written");
  }

  void post(ibv_wr_opcode opcode, std::size_t offset) {
    ibv_send_wr* bad = nullptr;
    crash::require(try_to_post(opcode, offset, &bad) == 0, "ibv_post_send");
  }

  [[nodiscard]] int try_to_post(ibv_wr_opcode opcode, std::size_t offset, ibv_send_wr** bad) {
    ibv_sge sge{
        .addr = crash::number_of(memory_.data() + offset), .length = kBytes, .lkey = region_->lkey};
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = address_;
    wr.wr.rdma.rkey = rkey_;
    return ibv_post_send(qp_, &wr, bad);
  }

  /// In a child: every use of the parent's objects is an error. The exit status says which is not.
  [[nodiscard]] int probe() {
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = end_.cq;
    init.qp_type = IBV_QPT_RC;
    const bool errors[] = {
        try_to_post(IBV_WR_RDMA_WRITE, 0, &bad) != 0,
        ibv_poll_cq(end_.cq, 1, &wc) < 0,
        ibv_req_notify_cq(end_.cq, 0) != 0,
        ibv_modify_qp(qp_, &to, IBV_QP_STATE) != 0,
        ibv_query_qp(qp_, &to, IBV_QP_STATE, &init) != 0,
        ibv_reg_mr(end_.pd, memory_.data(), kBytes, 0) == nullptr && errno != 0,
        ibv_alloc_pd(end_.context) == nullptr && errno != 0,
        ibv_create_cq(end_.context, 1, nullptr, nullptr, 0) == nullptr && errno != 0,
        ibv_create_qp(end_.pd, &init) == nullptr && errno != 0,
    };
    int number = 10;
    for (const bool is_error : errors) {
      if (!is_error) {
        return number;
      }
      ++number;
    }
    return 0;
  }

  crash::End end_{8};
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(2 * kBytes);
  ibv_mr* region_;
  ibv_qp* qp_;
  std::uint64_t address_{};
  unsigned rkey_{};
};

}  // namespace

int main(int count, char** arguments) {
  const std::string role = count > 1 ? arguments[1] : "";
  if (role == "target") {
    return be_target();
  }
  if (role == "parent" && count == 3) {
    Parent parent;
    return parent.run(static_cast<unsigned>(std::strtoul(arguments[2], nullptr, 10)));
  }
  return 2;
}
