#pragma once

// The data of one command that writes: immediate, unsolicited and solicited (RFC 7143 §4.2.5.2,
// §11.7, §11.8), as the target collects it. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "iscsi/parameters.h"

namespace weft::iscsi {

/// What to ask for by an R2T.
struct DataRequest {
  std::uint32_t r2t_sn{};
  std::uint32_t target_transfer_tag{};
  std::size_t offset{};
  std::size_t bytes{};
};

/// One Data-Out PDU, without its data.
struct DataOutPart {
  std::uint32_t target_transfer_tag{};
  std::uint32_t data_sn{};
  std::size_t offset{};
  std::size_t bytes{};
  bool final{};
  bool damaged{};  ///< by its data digest
};

/// What became of a Data-Out PDU.
enum class DataOutVerdict : std::uint8_t {
  Stored,      ///< its data belongs at its offset
  Discarded,   ///< a duplicate, or damaged; recovery asks again (RFC 7143 §7.2)
  Unexpected,  ///< unsolicited data that was not announced (§11.4.7.2)
  Incorrect,   ///< not what was asked for, or out of order
};

class WriteSequences {
 public:
  /// A command of `total` octets, whose `immediate` ones have come with it; `unsolicited`: Data-Out
  /// PDUs follow unasked.
  WriteSequences(std::size_t total, std::size_t immediate, bool unsolicited,
                 const Parameters& parameters);

  [[nodiscard]] DataOutVerdict take(const DataOutPart& part);
  /// A whole request has been fetched by the datamover.
  [[nodiscard]] bool take_fetched(std::uint32_t target_transfer_tag);
  /// The next R2T that may be sent now, by MaxOutstandingR2T, if there is one.
  [[nodiscard]] std::optional<DataRequest> next_request(std::uint32_t target_transfer_tag);
  [[nodiscard]] bool is_complete() const {
    return !unsolicited_.has_value() && requests_.empty() && missing_.empty() &&
           next_offset_ == total_;
  }
  /// Recovery level 1 and up: gives up what is under way and asks for what is missing of it anew,
  /// as after a time without data, or on another connection.
  void ask_again();
  [[nodiscard]] const std::vector<DataRequest>& outstanding() const { return asked_; }
  [[nodiscard]] std::uint32_t r2t_count() const { return next_r2t_sn_; }

 private:
  struct Sequence {
    std::uint32_t tag{};
    std::size_t begin{};
    std::size_t end{};
    std::size_t at{};
    std::uint32_t next_data_sn{};
    bool broken{};                                            // something of it was lost
    std::vector<std::pair<std::size_t, std::size_t>> ranges;  // that have come, if out of order
  };

  [[nodiscard]] DataOutVerdict take_in(Sequence& sequence, const DataOutPart& part);
  [[nodiscard]] DataOutVerdict take_any_order(Sequence& sequence, const DataOutPart& part) const;
  [[nodiscard]] DataOutVerdict fail(Sequence& sequence, DataOutVerdict otherwise) const;
  void end_sequence(const Sequence& sequence);

  std::size_t total_;
  std::size_t max_burst_;
  std::uint32_t max_outstanding_;
  bool in_order_;
  bool recovers_;
  std::optional<Sequence> unsolicited_;
  std::vector<Sequence> requests_;                            // outstanding
  std::vector<DataRequest> asked_;                            // the same, as they were asked
  std::vector<std::pair<std::size_t, std::size_t>> missing_;  // to be asked for again
  std::size_t next_offset_{};                                 // all before was asked for, or came
  std::uint32_t next_r2t_sn_{};
};

}  // namespace weft::iscsi
