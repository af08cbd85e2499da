#include "programs/iser/iser_link.h"

#include <algorithm>
#include <asio/post.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "programs/iser/live_cm_id.h"
#include "programs/rdma/host.h"
#include "ulp/iser/initiator_datamover.h"

namespace weft::programs::iser {

using weft::iser::InitiatorDatamover;

namespace {

constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds
constexpr weft::iser::ConnectionOptions kOptions{.receive_data_bytes = 8'192};

/// A connection, and what stands between it and the session: the session's timers are looked at
/// after each event.
struct Connection final : weft::iscsi::DatamoverClient {
  Connection(weft::iscsi::DatamoverClient& to, std::function<void()> after)
      : client(&to), settled(std::move(after)) {}

  void handle_pdu(const weft::iscsi::ReceivedPdu& pdu, Instant now) override {
    if (client != nullptr) {
      client->handle_pdu(pdu, now);
      settled();
    }
  }
  void handle_data_fetched(std::uint32_t tag, Instant now) override {
    if (client != nullptr) {
      client->handle_data_fetched(tag, now);
    }
  }
  void handle_lost(std::string_view reason, Instant now) override {
    if (weft::iscsi::DatamoverClient* const to = std::exchange(client, nullptr)) {
      to->handle_lost(reason, now);
      settled();
    }
  }

  weft::iscsi::DatamoverClient* client;
  iscsi::Link::Connected connected;
  std::function<void()> settled;
  std::unique_ptr<InitiatorDatamover> datamover;
};

class IserLink final : public iscsi::Link {
 public:
  explicit IserLink(asio::io_context& loop) : loop_(loop) {}
  ~IserLink() override;

  void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
               Connected connected, std::function<void()> settled) override;
  void abandon() override;
  void flush() override {}

 private:
  [[nodiscard]] Result<void> begin(const std::string& address, Connection& connection);
  void forget(Connection& connection);

  asio::io_context& loop_;
  std::unique_ptr<rdma::Host> host_;
  std::unique_ptr<core::Work> free_work_;
  std::vector<std::unique_ptr<Connection>> connections_;  // the last is the one that is wanted
  std::vector<std::unique_ptr<Connection>> gone_;
};

IserLink::~IserLink() {
  for (const auto& connection : connections_) {
    connection->client = nullptr;
    connection->connected = {};
    if (connection->datamover != nullptr) {
      connection->datamover->abandon();
    }
  }
  if (host_ == nullptr) {
    return;
  }
  core::Environment& environment = host_->environment();
  const bool ended = environment.wait_until([this] { return connections_.empty(); },
                                            environment.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  free_work_->flush();
}

void IserLink::connect(const std::string& address, weft::iscsi::DatamoverClient& client,
                       Connected connected, std::function<void()> settled) {
  connections_.push_back(std::make_unique<Connection>(client, std::move(settled)));
  Connection& connection = *connections_.back();
  connection.connected = std::move(connected);
  const auto begun = begin(address, connection);
  if (begun) {
    return;
  }
  // Not from inside: the session is told as of any other failure.
  asio::post(loop_, [this, &connection, reason = begun.error().reason] {
    const auto found =
        std::ranges::find(connections_, &connection, [](const auto& one) { return one.get(); });
    if (found == connections_.end()) {
      return;
    }
    const std::unique_ptr<Connection> failed = std::move(*found);
    connections_.erase(found);
    if (const auto told = std::exchange(failed->connected, {})) {
      told(nullptr, reason);
      failed->settled();
    }
  });
}

Result<void> IserLink::begin(const std::string& address, Connection& connection) {
  if (host_ == nullptr) {
    auto opened = rdma::Host::open(loop_, {}, "weft-iser");
    if (!opened) {
      return std::unexpected(opened.error());
    }
    host_ = *std::move(opened);
    free_work_ = std::make_unique<core::Work>(
        host_->environment(), core::WorkContext::UnboundWorkQueue, 0, [this] { gone_.clear(); });
  }
  auto datamover = std::make_unique<InitiatorDatamover>(
      host_->environment(), kOptions, [this, &connection] { forget(connection); });
  datamover->set_client(connection);
  auto id = LiveCmId::create(host_->environment(), host_->cm(), datamover->cm_handler());
  if (!id) {
    return std::unexpected(id.error());
  }
  auto begun =
      datamover->connect(*std::move(id), address, [&connection](const std::string& reason) {
        const auto told = std::exchange(connection.connected, {});
        if (!told) {
          return;
        }
        if (reason.empty()) {
          told(connection.datamover.get(), {});
        } else {
          connection.client = nullptr;
          told(nullptr, reason);
        }
        connection.settled();
      });
  if (begun) {
    connection.datamover = std::move(datamover);
  }
  return begun;
}

void IserLink::abandon() {
  if (!connections_.empty()) {
    Connection& connection = *connections_.back();
    connection.client = nullptr;
    connection.connected = {};
    if (connection.datamover != nullptr) {
      connection.datamover->abandon();
    }
  }
}

void IserLink::forget(Connection& connection) {
  const auto found =
      std::ranges::find(connections_, &connection, [](const auto& one) { return one.get(); });
  gone_.push_back(std::move(*found));
  connections_.erase(found);
  free_work_->queue();  // it is still inside the datamover
}

}  // namespace

std::unique_ptr<iscsi::Link> make_iser_link(asio::io_context& loop) {
  return std::make_unique<IserLink>(loop);
}

}  // namespace weft::programs::iser
