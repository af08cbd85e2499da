#pragma once

// librdmacm without a network: ids that only exist, and events that a test tells.

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/assert.h"
#include "verbs_driver/library.h"

namespace weft::verbs_driver::testing {

/// There is one at a time. Any thread.
class ScriptedRdmaCm {
 public:
  ScriptedRdmaCm() {
    WEFT_ASSERT(running == nullptr, "functions of a library have no other way to find it");
    WEFT_ASSERT(pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) == 0, "a pipe can be made");
    channel_.fd = pipe_[0];
    running = this;
  }
  ~ScriptedRdmaCm() {
    running = nullptr;
    close(pipe_[0]);
    close(pipe_[1]);
  }
  ScriptedRdmaCm(const ScriptedRdmaCm&) = delete;
  ScriptedRdmaCm& operator=(const ScriptedRdmaCm&) = delete;

  [[nodiscard]] static RdmaCmLibrary library() {
    RdmaCmLibrary made;
    made.create_event_channel = [] { return &running->channel_; };
    made.destroy_event_channel = [](rdma_event_channel*) {};
    made.create_id = [](rdma_event_channel*, rdma_cm_id** id, void*, rdma_port_space) {
      *id = running->add_id();
      return 0;
    };
    made.destroy_id = [](rdma_cm_id* id) { return running->remove_id(id); };
    made.bind_addr = [](rdma_cm_id*, sockaddr*) { return running->refuse_bind(); };
    made.listen = [](rdma_cm_id*, int) { return 0; };
    made.get_src_port = [](rdma_cm_id*) { return htobe16(kPort); };
    made.disconnect = [](rdma_cm_id*) { return 0; };
    made.get_cm_event = [](rdma_event_channel*, rdma_cm_event** event) {
      return running->take_event(event);
    };
    made.ack_cm_event = [](rdma_cm_event* event) {
      delete event;  // NOLINT(cppcoreguidelines-owning-memory)
      return 0;
    };
    return made;
  }

  /// Addresses that are asked for are not there.
  std::atomic<bool> has_no_addresses{};
  /// That every id is bound to.
  static constexpr std::uint16_t kPort = 4242;

  /// The id that was made as the so-manyth; also where it has gone.
  [[nodiscard]] rdma_cm_id* id(std::size_t number) const {
    const std::lock_guard lock{mutex_};
    return made_.at(number).get();
  }
  [[nodiscard]] std::size_t made() const {
    const std::lock_guard lock{mutex_};
    return made_.size();
  }
  [[nodiscard]] std::size_t living() const {
    const std::lock_guard lock{mutex_};
    return living_;
  }

  void tell(rdma_cm_id* id, rdma_cm_event_type type, rdma_cm_id* listener = nullptr) {
    auto event = std::make_unique<rdma_cm_event>();
    event->id = id;
    event->listen_id = listener;
    event->event = type;
    const std::lock_guard lock{mutex_};
    events_.push_back(std::move(event));
    const char byte{};
    WEFT_ASSERT(write(pipe_[1], &byte, 1) == 1, "the pipe has room for a test's events");
  }
  /// A request for a connection, whose id it returns.
  rdma_cm_id* request(rdma_cm_id* listener) {
    rdma_cm_id* const id = add_id();
    tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, listener);
    return id;
  }

 private:
  static inline ScriptedRdmaCm* running{};

  rdma_cm_id* add_id() {
    const std::lock_guard lock{mutex_};
    ++living_;
    return made_.emplace_back(std::make_unique<rdma_cm_id>()).get();
  }
  [[nodiscard]] int refuse_bind() const {
    errno = EADDRNOTAVAIL;
    return has_no_addresses ? -1 : 0;
  }
  int remove_id(const rdma_cm_id* /*id*/) {
    const std::lock_guard lock{mutex_};
    --living_;
    return 0;
  }
  int take_event(rdma_cm_event** event) {
    const std::lock_guard lock{mutex_};
    char byte{};
    if (read(pipe_[0], &byte, 1) != 1) {
      errno = EAGAIN;
      return -1;
    }
    *event = events_.front().release();
    events_.pop_front();
    return 0;
  }

  std::array<int, 2> pipe_{};
  rdma_event_channel channel_{};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<rdma_cm_id>> made_;
  std::size_t living_{};
  std::deque<std::unique_ptr<rdma_cm_event>> events_;
};

}  // namespace weft::verbs_driver::testing
