#pragma once

// iSER for a target server: portals that listen by RDMA-CM, and their connections.

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/work.h"
#include "iscsi/target_server.h"
#include "programs/iscsi/transport.h"
#include "programs/rdma/host.h"
#include "ulp/iser/target_datamover.h"

namespace weft::programs::iser {

class IserPortals final : public iscsi::Transport, private core::RdmaCmHandler {
 public:
  /// `device`: the RDMA device; empty: the first. It is opened by the first listen().
  IserPortals(asio::io_context& loop, weft::iscsi::TargetServer& server, std::string device);
  ~IserPortals() override;
  IserPortals(const IserPortals&) = delete;
  IserPortals& operator=(const IserPortals&) = delete;

  [[nodiscard]] std::string_view prefix() const override { return "iser:"; }
  Result<std::string> listen(const std::string& address) override;
  void close() override { listeners_.clear(); }
  [[nodiscard]] std::size_t connections() const override { return connections_.size(); }

 private:
  struct Request {
    std::unique_ptr<core::RdmaCmId> id;
    verbs::ConnectionParameters offered;
  };
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void accept_requests();
  void accept(Request request);
  [[nodiscard]] Result<void> open_host();
  void forget(std::uint64_t connection);

  asio::io_context& loop_;
  weft::iscsi::TargetServer& server_;
  const std::string device_;
  std::unique_ptr<rdma::Host> host_;
  std::mutex mutex_;  // of the requests, which come where RDMA-CM calls its handlers
  std::deque<Request> requests_;
  std::unique_ptr<core::Work> accept_work_;
  std::map<std::uint64_t, std::unique_ptr<weft::iser::TargetDatamover>> connections_;
  std::uint64_t next_connection_{};
  std::vector<std::unique_ptr<weft::iser::TargetDatamover>> gone_;
  std::unique_ptr<core::Work> free_work_;
  std::vector<std::unique_ptr<core::RdmaCmId>> listeners_;
};

}  // namespace weft::programs::iser
