#pragma once

// Surroundings for testing classes of a process on their own: a scripted daemon, an HCA without a
// driver, and a program that records its events.

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hca/hca.h"
#include "host/foreign/daemon_channel.h"
#include "host/foreign/local_objects.h"
#include "host/process.h"

namespace weft::host::testing {

/// Records the messages that are posted. Calls `reply` for each on a thread of its own, as
/// responses of the daemon arrive. Any thread.
class FakeDaemon final : public DaemonChannel {
 public:
  ~FakeDaemon() override { finish(); }

  [[nodiscard]] uabi::ProcessAddress self() const override { return {.node = 0, .slot = 1}; }
  using DaemonChannel::post;
  void post(uabi::Message message, os::UniqueFd descriptor) override {
    const std::lock_guard guard{lock_};
    if (reply) {
      threads_.emplace_back([this, message] { reply(message); });
    }
    has_descriptor_ = static_cast<bool>(descriptor);
    posted_.push_back(std::move(message));
  }
  void post_and_send(uabi::Message message, os::UniqueFd descriptor) override {
    post(std::move(message), std::move(descriptor));
  }
  void start_daemon_events() override {}
  [[nodiscard]] bool is_gone() const override { return is_over; }
  [[nodiscard]] Error gone() const override { return {ErrorCode::Io, "the fabric is gone"}; }

  /// Waits until all replies were given.
  void finish() {
    while (true) {
      std::vector<std::thread> threads;
      {
        const std::lock_guard guard{lock_};
        threads = std::exchange(threads_, {});
      }
      if (threads.empty()) {
        return;
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
    }
  }
  /// Removes all messages posted so far, and returns those of one kind.
  template <class Message>
  [[nodiscard]] std::vector<Message> take() {
    const std::lock_guard guard{lock_};
    std::vector<Message> taken;
    for (const uabi::Message& message : posted_) {
      if (const auto* one = message.get_if<Message>()) {
        taken.push_back(*one);
      }
    }
    posted_.clear();
    return taken;
  }
  [[nodiscard]] bool last_had_descriptor() const { return has_descriptor_; }

  std::function<void(const uabi::Message&)> reply;
  std::atomic<bool> is_over{false};

 private:
  std::mutex lock_;
  std::deque<uabi::Message> posted_;
  std::vector<std::thread> threads_;
  bool has_descriptor_{};
};

/// An HCA with one port, whose QPs no driver serves.
class FakeObjects final : public LocalObjects {
 public:
  FakeObjects() : adapter(configuration(), events_) {
    hca::PortAttributes port;
    port.lid = Lid{1};
    port.pkeys = {kDefaultPKey};
    adapter.set_port(PortNumber{1}, port);
  }

  void start_serving() override {}
  [[nodiscard]] hca::Hca& engine(std::uint32_t) override { return adapter; }
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask) override {
    return qp.modify(attributes, mask);
  }
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t, hca::Qp& qp) override {
    ++destroyed;
    return adapter.destroy_qp(qp);
  }
  void carry_for_proxy(std::uint32_t, hca::Qp&) override { ++proxies; }
  void for_each_qp_of(std::uint32_t, const std::function<bool(hca::Qp&)>&) override {}

  [[nodiscard]] hca::Qp& make_target(hca::XrcDomain& domain) {
    hca::QpInit init;
    init.type = hca::QpType::XrcTarget;
    init.xrcd = &domain;
    return **adapter.create_qp(init);
  }

 private:
  class NoEvents final : public hca::HcaEvents {
   public:
    void completion_event(hca::CompletionQueue&) override {}
    void async_event(const hca::AsyncEvent&) override {}
    [[nodiscard]] bool explains_errors() const override { return false; }
    void explain(std::string_view) override {}
  };
  [[nodiscard]] static hca::HcaConfiguration configuration() {
    hca::HcaConfiguration made;
    made.lock_policy = LockPolicy::Spin;
    return made;
  }
  NoEvents events_;

 public:
  hca::Hca adapter;
  int destroyed{};
  int proxies{};
};

/// Notes what a program is told of objects of other processes, and of its fabric's end.
class FakeProgram final : public ProcessEvents {
 public:
  void completion_event(std::uint32_t, hca::CompletionQueue&) override {}
  void async_event(std::uint32_t, const hca::AsyncEvent& event) override {
    async_types.push_back(event.type);
  }
  void target_event(std::uint32_t, Qpn target, hca::AsyncEventType type) override {
    target_events.emplace_back(target, type);
  }
  [[nodiscard]] uabi::ObjectAnswer handle_object_request(const uabi::ObjectRequest&) override {
    uabi::ObjectAnswer answer;
    answer.key = 77;
    return answer;
  }
  void device_gone(std::uint32_t device, uabi::ProcessAddress) override { gone_device = device; }
  void fabric_gone(std::string_view reason) override { teardown_notices.emplace_back(reason); }
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}

  std::vector<hca::AsyncEventType> async_types;
  std::vector<std::pair<Qpn, hca::AsyncEventType>> target_events;
  std::uint32_t gone_device{};
  std::vector<std::string> teardown_notices;
};

}  // namespace weft::host::testing
