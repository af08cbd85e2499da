// all_to_all RANK COUNT MESSAGES
//
// One of COUNT processes: an RC QP to each of the others, MESSAGES of several lengths over each,
// every byte checked. Sleeps whenever there is nothing to do.

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "verbs_end.h"

namespace {

constexpr std::array<std::uint32_t, 4> kLengths{8, 1'000, 1'024, 6'000};  // MTU 1,024
constexpr std::uint32_t kSlot = 6'000;

[[nodiscard]] std::uint8_t byte_of(unsigned from, unsigned to, unsigned message, std::uint32_t at) {
  return static_cast<std::uint8_t>(from * 131 + to * 17 + message * 29 + at * 7 + at / 251);
}

class Rank {
 public:
  Rank(unsigned rank, unsigned count, unsigned messages)
      : rank_(rank),
        count_(count),
        messages_(messages),
        end_(static_cast<int>(2 * count * messages)),
        memory_(std::size_t{2} * count * messages * kSlot),
        region_(end_.share(memory_)),
        qps_(count) {}

  int run() {
    crash::say(end_.lid);
    for (unsigned peer = 0; peer < count_; ++peer) {
      qps_[peer] = peer == rank_ ? nullptr : end_.make_qp(messages_);
      crash::say(" ", qps_[peer] == nullptr ? 0 : qps_[peer]->qp_num);
    }
    crash::say("\n");
    for (unsigned peer = 0; peer < count_; ++peer) {
      const crash::Peer address = crash::read_peer();
      if (peer != rank_) {
        post_receives(peer);
        crash::End::connect(qps_[peer], address);
      }
    }
    crash::say("connected\n");
    static_cast<void>(crash::read_peer());  // two numbers: everybody is
    for (unsigned message = 0; message < messages_; ++message) {
      for (unsigned step = 1; step < count_; ++step) {
        post_send((rank_ + step) % count_, message);
      }
    }
    complete();
    crash::say("done\n");
    crash::wait_for_the_end();
    return 0;
  }

 private:
  [[nodiscard]] std::uint8_t* slot(bool is_send, unsigned peer, unsigned message) {
    const std::size_t index = (std::size_t{peer} * messages_ + message) * 2 + (is_send ? 1 : 0);
    return memory_.data() + index * kSlot;
  }

  void post_receives(unsigned peer) {
    for (unsigned message = 0; message < messages_; ++message) {
      ibv_sge sge{.addr = crash::number_of(slot(false, peer, message)),
                  .length = kSlot,
                  .lkey = region_->lkey};
      ibv_recv_wr wr{.wr_id = std::uint64_t{peer} << 32 | message,
                     .next = nullptr,
                     .sg_list = &sge,
                     .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      crash::require(ibv_post_recv(qps_[peer], &wr, &bad) == 0, "ibv_post_recv");
    }
  }

  void post_send(unsigned peer, unsigned message) {
    const std::uint32_t length = kLengths[message % kLengths.size()];
    std::uint8_t* const bytes = slot(true, peer, message);
    for (std::uint32_t at = 0; at < length; ++at) {
      bytes[at] = byte_of(rank_, peer, message, at);
    }
    ibv_sge sge{.addr = crash::number_of(bytes), .length = length, .lkey = region_->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    crash::require(ibv_post_send(qps_[peer], &wr, &bad) == 0, "ibv_post_send");
  }

  void complete() {
    unsigned left = 2 * (count_ - 1) * messages_;
    for (; left != 0; --left) {
      const ibv_wc wc = end_.wait_for_success();
      if (wc.opcode == IBV_WC_RECV) {
        check(static_cast<unsigned>(wc.wr_id >> 32), static_cast<unsigned>(wc.wr_id), wc.byte_len);
      }
    }
  }

  void check(unsigned peer, unsigned message, std::uint32_t length) {
    crash::require(length == kLengths[message % kLengths.size()], "length of a message");
    const std::uint8_t* const bytes = slot(false, peer, message);
    for (std::uint32_t at = 0; at < length; ++at) {
      crash::require(bytes[at] == byte_of(peer, rank_, message, at), "content of a message");
    }
  }

  unsigned rank_;
  unsigned count_;
  unsigned messages_;
  crash::End end_;
  std::vector<std::uint8_t> memory_;
  ibv_mr* region_;
  std::vector<ibv_qp*> qps_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    return 2;
  }
  std::array<unsigned, 3> numbers{};
  std::transform(arguments + 1, arguments + 4, numbers.begin(), [](const char* text) {
    return static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  });
  Rank rank{numbers[0], numbers[1], numbers[2]};
  return rank.run();
}
