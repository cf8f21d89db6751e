"""Days and the proleptic Gregorian calendar, for all years (`datetime` ends at 9999)."""

from __future__ import annotations

MS_PER_DAY = 86_400_000


def days_from_civil(year: int, month: int, day: int) -> int:
    """Returns the days since 1970-01-01.

    >>> days_from_civil(1970, 1, 1), days_from_civil(2000, 3, 1), days_from_civil(-1, 12, 31)
    (0, 11017, -719529)
    """
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Returns year, month and day; the reverse of `days_from_civil`.

    >>> civil_from_days(11017)
    (2000, 3, 1)
    """
    days += 719468
    era = days // 146097
    day_of_era = days - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    month = month_index + (3 if month_index < 10 else -9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day_of_year - (153 * month_index + 2) // 5 + 1


def is_leap(year: int) -> bool:
    """Whether February has 29 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Returns the number of days of a month."""
    return 29 if month == 2 and is_leap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def checked_days(year: int, month: int, day: int) -> int:
    """Returns the days since 1970-01-01 of a date that must exist."""
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise ValueError(f"there is no date {year:04d}-{month:02d}-{day:02d}")
    return days_from_civil(year, month, day)


def year_text(year: int) -> str:
    """Returns a year as ISO 8601 writes it: four digits at least, a sign if there are more."""
    if year > 9999:
        return f"+{year}"
    return f"-{-year:04d}" if year < 0 else f"{year:04d}"


def date_text(days: int) -> str:
    """Returns ISO text.

    >>> date_text(18383), date_text(2932897)
    ('2020-05-01', '+10000-01-01')
    """
    year, month, day = civil_from_days(days)
    return f"{year_text(year)}-{month:02d}-{day:02d}"


def time_text(milliseconds: int) -> str:
    """Returns ISO text in seconds; without them if they are 0.

    >>> time_text(36_900_000), time_text(36_901_999)
    ('10:15', '10:15:01')
    """
    minutes, seconds = divmod(milliseconds // 1000, 60)
    shown = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{shown}:{seconds:02d}" if seconds else shown


def timestamp_text(milliseconds: int) -> str:
    """Returns ISO text in milliseconds, in UTC.

    >>> timestamp_text(1588327200123)
    '2020-05-01T10:00:00.123'
    """
    days, rest = divmod(milliseconds, MS_PER_DAY)
    seconds, fraction = divmod(rest, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"
    return f"{date_text(days)}T{clock}"
