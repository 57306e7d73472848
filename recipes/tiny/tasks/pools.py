"""The small closed vocabulary that the tasks draw from."""

NAMES = (
    "Anna", "Bob", "Carl", "Dana", "Emma", "Finn", "Gina", "Hugo", "Iris", "Jack",
    "Kate", "Leo", "Mia", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tina", "Vera",
)  # fmt: skip

THINGS = (
    "apples", "books", "cards", "coins", "cookies", "cups", "eggs", "keys",
    "marbles", "oranges", "pens", "plums", "shells", "stamps", "balls", "lemons",
)  # fmt: skip

WORDS = (
    "apple", "bread", "bridge", "castle", "chair", "circle", "cloud", "dragon",
    "forest", "garden", "house", "island", "lamp", "lemon", "letter", "light",
    "metal", "moon", "music", "number", "ocean", "paper", "piano", "planet",
    "quick", "river", "robot", "rocket", "silver", "smile", "snow", "square",
    "stone", "sugar", "summer", "table", "tiger", "tree", "valley", "water",
    "window", "winter",
)  # fmt: skip

ANIMALS = ("bird", "cat", "cow", "dog", "duck", "fish", "goat", "horse", "mouse", "rabbit")
COLORS = ("black", "blue", "brown", "gray", "green", "pink", "red", "white", "yellow", "orange")
CITIES = ("Athens", "Berlin", "Lisbon", "London", "Madrid", "Oslo", "Paris", "Rome")
JOBS = ("baker", "doctor", "farmer", "nurse", "pilot", "singer", "teacher", "writer")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
